from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.rebalance import AllocateStrategy, allocate_averagely, allocate_by_circle
from pocketmq.protocol.message import MessageQueue

STRATEGIES = [allocate_averagely, allocate_by_circle]


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "a", i) for i in range(count)]


def shares(strategy: AllocateStrategy, queue_count: int, members: int) -> list[list[int]]:
    ids = [f"c{i:03}" for i in range(members)]
    return [[q.queue_id for q in strategy(me, queues(queue_count), ids)] for me in ids]


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(queue_count=st.integers(0, 60), members=st.integers(1, 70))
def test_every_queue_exactly_once_and_fairly(
    strategy: AllocateStrategy, queue_count: int, members: int
) -> None:
    parts = shares(strategy, queue_count, members)
    assert Counter(i for part in parts for i in part) == Counter(range(queue_count))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    ("queue_count", "members", "expected"),
    [
        (4, 1, [[0, 1, 2, 3]]),
        (4, 3, [[0, 1], [2], [3]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
        (2, 4, [[0], [1], [], []]),
    ],
)
def test_average_is_as_in_rocketmq(
    queue_count: int, members: int, expected: list[list[int]]
) -> None:
    assert shares(allocate_averagely, queue_count, members) == expected


@given(queue_count=st.integers(0, 60), members=st.integers(1, 70))
def test_average_follows_rocketmqs_formula(queue_count: int, members: int) -> None:
    """behaviour.md §9; members written in Java compute it like this."""
    n, c = queue_count, members
    for i, share in enumerate(shares(allocate_averagely, n, c)):
        m = n % c
        size = 1 if n <= c else (n // c + 1 if i < m else n // c)
        start = i * size if i < m else i * size + m
        end = min(start + size, n)
        assert share == list(range(start, max(start, end)))


def test_circle_deals_like_cards() -> None:
    assert shares(allocate_by_circle, 5, 2) == [[0, 2, 4], [1, 3]]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_who_is_no_member_gets_nothing(strategy: AllocateStrategy) -> None:
    assert list(strategy("x", queues(4), ["a", "b"])) == []
