from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from pocketmq.client import Message, MessageQueue, QueueChoiceError
from pocketmq.client.producers.selectors import ByMachineRoom, ByRandom, by_hash, room_of
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.properties import java_hash

QUEUES = [MessageQueue("T", "a", i) for i in range(4)]
MESSAGE = Message("T", b"x")


def test_equal_keys_go_to_the_same_queue() -> None:
    message = Message("T", b"x", sharding_key="order-1")
    assert by_hash(QUEUES, message) == by_hash(QUEUES, MESSAGE, "order-1")


@pytest.mark.parametrize(("key", "index"), [("TagA", 2598919 % 4), (7, 3), (-7, 3), (0, 0)])
def test_keys_hash_as_in_java(key: object, index: int) -> None:
    assert by_hash(QUEUES, MESSAGE, key) == QUEUES[index]


def test_a_negative_hash_is_made_positive() -> None:
    key = next(f"k{i}" for i in range(100) if java_hash(f"k{i}00000000") < 0) + "00000000"
    assert by_hash(QUEUES, MESSAGE, key) == QUEUES[-java_hash(key) % 4]


def test_hash_without_a_key_is_refused() -> None:
    with pytest.raises(UsageError, match="sharding_key"):
        by_hash(QUEUES, MESSAGE)


def test_many_keys_spread() -> None:
    counts = Counter(by_hash(QUEUES, MESSAGE, f"key-{i}") for i in range(1000))
    assert set(counts) == set(QUEUES)
    assert min(counts.values()) > 150


def test_random_is_repeatable_and_reaches_all() -> None:
    first = [ByRandom(Random(5))(QUEUES, MESSAGE) for _ in range(1)]
    assert first == [ByRandom(Random(5))(QUEUES, MESSAGE)]
    selector = ByRandom(Random(5))
    assert {selector(QUEUES, MESSAGE) for _ in range(100)} == set(QUEUES)


def test_machine_rooms() -> None:
    queues = [MessageQueue("T", name, 0) for name in ("r1@a", "r2@b", "r1@c", "d")]
    selector = ByMachineRoom({"r1"})
    assert {selector(queues, MESSAGE).broker_name for _ in range(10)} == {"r1@a", "r1@c"}
    assert room_of("d") == ""
    with pytest.raises(QueueChoiceError, match="machine rooms"):
        ByMachineRoom({"r9"})(queues, MESSAGE)


def test_rooms_by_another_rule() -> None:
    queues = [MessageQueue("T", name, 0) for name in ("east-1", "west-1")]
    selector = ByMachineRoom({"west"}, lambda name: name.split("-")[0])
    assert selector(queues, MESSAGE).broker_name == "west-1"
