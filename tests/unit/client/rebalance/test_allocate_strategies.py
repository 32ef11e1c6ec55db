from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.client.rebalance.allocate_strategies import (
    AllocateByConfiguration,
    AllocateByConsistentHash,
    AllocateByMachineRoom,
    AllocateNearby,
    AllocateStrategy,
    allocate_averagely,
    allocate_by_circle,
)
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.message import MessageQueue

ROOMS = st.sampled_from(["north", "south", "west"])
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


def first_part(name: str) -> str:
    return name.partition("@")[0]


def queues_in(rooms: list[str]) -> list[MessageQueue]:
    return sorted(
        MessageQueue("T", f"{room}@broker-{i // 4}", i % 4) for i, room in enumerate(rooms)
    )


@given(rooms=st.lists(ROOMS, max_size=40), members=st.integers(1, 50))
def test_by_machine_room_shares_just_the_rooms_queues(rooms: list[str], members: int) -> None:
    queues, ids = queues_in(rooms), [f"c{i:03}" for i in range(members)]
    strategy = AllocateByMachineRoom(["north", "west"])
    parts = [strategy(me, queues, ids) for me in ids]
    wanted = [q for q in queues if not q.broker_name.startswith("south")]
    assert Counter(q for part in parts for q in part) == Counter(wanted)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_by_machine_room_is_as_in_rocketmq() -> None:
    queues = queues_in(["north"] * 8)
    ids = ["c0", "c1", "c2"]
    strategy = AllocateByMachineRoom(["north"])
    numbers = [[queues.index(q) for q in strategy(me, queues, ids)] for me in ids]
    assert numbers == [[0, 1, 6], [2, 3, 7], [4, 5]]
    assert list(strategy("c0", [MessageQueue("T", "plain", 0)], ids)) == []


@given(
    queue_rooms=st.lists(ROOMS, max_size=30),
    member_rooms=st.lists(ROOMS, min_size=1, max_size=12),
    inner=st.sampled_from([*STRATEGIES, AllocateByConsistentHash()]),
)
def test_nearby_gives_each_queue_once_and_to_its_own_room_if_it_can(
    queue_rooms: list[str], member_rooms: list[str], inner: AllocateStrategy
) -> None:
    queues = queues_in(queue_rooms)
    ids = sorted(f"{room}@{i:02}" for i, room in enumerate(member_rooms))
    strategy = AllocateNearby(first_part, strategy=inner)
    parts = {me: strategy(me, queues, ids) for me in ids}
    assert Counter(q for part in parts.values() for q in part) == Counter(queues)
    for me, part in parts.items():
        for queue in part:
            room = first_part(queue.broker_name)
            assert room == first_part(me) or room not in member_rooms


@pytest.mark.parametrize(("broker", "member"), [("plain", "north@1"), ("north@a", "")])
def test_nearby_must_know_all_rooms(broker: str, member: str) -> None:
    strategy = AllocateNearby(first_part)
    with pytest.raises(ConfigError, match="machine room of"):
        strategy(member, [MessageQueue("T", broker, 0)], [member])


MEMBERS = st.lists(st.integers(0, 500).map("192.168.0.{}@9".format), unique=True, min_size=1)


@given(members=MEMBERS, queue_count=st.integers(0, 60), nodes=st.integers(1, 20))
def test_consistent_hash_gives_every_queue_once(
    members: list[str], queue_count: int, nodes: int
) -> None:
    strategy, ids = AllocateByConsistentHash(nodes), sorted(members)
    found = Counter(q for me in ids for q in strategy(me, queues(queue_count), ids))
    assert found == Counter(queues(queue_count))


@given(members=MEMBERS, queue_count=st.integers(0, 60))
def test_consistent_hash_moves_only_the_queues_of_who_comes_or_goes(
    members: list[str], queue_count: int
) -> None:
    strategy, newcomer = AllocateByConsistentHash(), "192.168.7.7@9"
    before, after = sorted(members), sorted([*members, newcomer])
    gained = set(strategy(newcomer, queues(queue_count), after))
    for me in before:
        old = set(strategy(me, queues(queue_count), before))
        new = set(strategy(me, queues(queue_count), after))
        assert new == old - gained


def test_consistent_hash_is_as_in_rocketmq() -> None:
    """What three members in Java (5.5.0) come to."""
    ids = ["10.0.0.1@1#7", "10.0.0.2@1#7", "10.0.0.3@1#7"]
    all_queues = [MessageQueue("Orders", b, i) for b in ("broker-a", "broker-b") for i in range(8)]
    strategy = AllocateByConsistentHash()
    parts = [[all_queues.index(q) for q in strategy(me, all_queues, ids)] for me in ids]
    assert parts == [[1, 6, 7, 13, 15], [2, 9, 14], [0, 3, 4, 5, 8, 10, 11, 12]]


def test_consistent_hash_needs_places() -> None:
    with pytest.raises(ConfigError):
        AllocateByConsistentHash(0)


def test_by_configuration() -> None:
    first, second, third = queues(3)
    other = MessageQueue("Other", "a", 0)
    strategy = AllocateByConfiguration([first, third, other])
    assert strategy("c", [first, second, third], ["c", "d"]) == [first, third]
    assert strategy("c", [second], ["c", "d"]) == []
    assert strategy("c", [], ["c", "d"]) == []


def test_by_configuration_leaves_no_failed_message_alone() -> None:
    retries = [MessageQueue("%RETRY%cg", "a", i) for i in range(4)]
    plain = AllocateByConfiguration(queues(1))
    assert plain("d", retries, ["c", "d"]) == retries[2:]
    named = AllocateByConfiguration([*queues(1), retries[0]])
    assert named("d", retries, ["c", "d"]) == retries[:1]


@pytest.mark.parametrize(
    "strategy",
    [
        *STRATEGIES,
        AllocateByConsistentHash(),
        AllocateByMachineRoom(["a"], str),
        AllocateNearby(str, str),
    ],
)
def test_who_is_no_member_gets_nothing(strategy: AllocateStrategy) -> None:
    assert list(strategy("x", queues(4), ["a", "b"])) == []
