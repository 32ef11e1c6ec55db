from __future__ import annotations

import random
from bisect import bisect_left

import pytest

from pocketmq.broker.delay.timer_index import TimerIndex
from pocketmq.broker.metrics.timer_snapshot import BOUNDS_S, LOOKS_MAX, snapshot

NOW_MS = 1_700_000_000_000


def counted(index: TimerIndex) -> list[int]:
    counts = [0] * len(BOUNDS_S)
    for _ in snapshot(index, NOW_MS, counts):
        pass
    return counts


def index_of(delays_s: list[int]) -> TimerIndex:
    index = TimerIndex()
    for item, delay_s in enumerate(delays_s):
        index.add(NOW_MS + delay_s * 1000, item)
    return index


def expected(delays_s: list[int]) -> list[int]:
    counts = [0] * (len(BOUNDS_S) + 1)
    for delay_s in delays_s:
        counts[bisect_left(BOUNDS_S, delay_s)] += 1
    return counts[:-1]


def test_each_message_counts_in_the_span_in_which_it_is_due() -> None:
    delays_s = [0, 5, 6, 60, 61, 300, 3600, 3601, 86_400, 86_401, 200_000]
    assert counted(index_of(delays_s)) == expected(delays_s)


@pytest.mark.parametrize("seed", range(3))
def test_wherever_the_index_has_them(seed: int) -> None:
    chance = random.Random(seed)
    delays_s = [chance.randrange(100_000) for _ in range(1000)]
    index = index_of(delays_s)
    while not index.advance(NOW_MS):
        pass
    assert counted(index) == expected(delays_s)


def test_of_many_in_one_bucket_some_stand_for_all() -> None:
    chance = random.Random(1)
    count = 10 * LOOKS_MAX
    delays_s = [chance.randrange(86_400) for _ in range(count)]
    found, right = counted(index_of(delays_s)), expected(delays_s)
    assert sum(found) == pytest.approx(sum(right), rel=0.02)
    for estimate, number in zip(found[4:], right[4:], strict=True):
        assert estimate == pytest.approx(number, rel=0.15)
