from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from pocketmq.broker.groups import order_locks
from pocketmq.broker.groups.order_locks import LockLimits, OrderLocks
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.testing.clock import VirtualClock, settle

Q0, Q1, Q2 = (MessageQueue("T", "broker-a", number) for number in range(3))


@pytest.fixture
def locks(metadata: Metadata, clock: VirtualClock) -> OrderLocks:
    return OrderLocks(metadata, clock)


def test_a_queue_is_one_members_at_a_time(locks: OrderLocks) -> None:
    assert locks.lock("g", [Q0, Q1], "a") == [Q0, Q1]
    assert locks.lock("g", [Q1, Q2], "b") == [Q2]
    assert locks.lock("h", [Q0], "b") == [Q0]
    assert len(locks) == 4
    locks.unlock("g", [Q0, Q2], "a")  # Q2 is not its
    locks.unlock("none", [Q0], "a")
    assert locks.lock("g", [Q0, Q1, Q2], "b") == [Q0, Q2]


async def test_a_lock_holds_for_a_minute_after_its_last_renewal(
    locks: OrderLocks, clock: VirtualClock
) -> None:
    locks.lock("g", [Q0, Q1], "a")
    await clock.advance(40)
    assert locks.lock("g", [Q0], "a") == [Q0]
    await clock.advance(20)
    assert locks.lock("g", [Q0, Q1], "b") == []
    await clock.advance(0.1)
    assert locks.lock("g", [Q0, Q1], "b") == [Q1]
    await clock.advance(40)
    assert locks.lock("g", [Q0, Q1], "a") == [Q0]


async def test_whether_a_group_consumes_in_order(locks: OrderLocks, clock: VirtualClock) -> None:
    assert not locks.holds_any("g")
    locks.lock("g", [Q0, Q1], "a")
    await clock.advance(30)
    locks.lock("g", [Q1], "a")
    await clock.advance(60)
    assert locks.holds_any("g")
    assert not locks.holds_any("h")
    await clock.advance(0.1)
    assert not locks.holds_any("g")
    assert len(locks) == 2
    await locks.expire()
    assert len(locks) == 0
    locks.lock("g", [Q0], "a")
    locks.unlock("g", [Q0], "a")
    assert not locks.holds_any("g")


async def test_owners_survive_a_restart_for_a_minute(
    locks: OrderLocks, metadata: Metadata, clock: VirtualClock
) -> None:
    locks.lock("g", [Q0, Q1, Q2], "a")
    await clock.advance(61)
    locks.lock("g", [Q0], "b")
    locks.unlock("g", [Q1], "a")
    again = OrderLocks(metadata, clock)
    assert len(again) == 2
    assert again.lock("g", [Q0, Q1, Q2], "c") == [Q1]
    assert again.lock("g", [Q0], "b") == [Q0]
    await clock.advance(61)
    await again.expire()
    assert metadata.order_locks() == []


def test_there_are_not_too_many(metadata: Metadata, clock: VirtualClock) -> None:
    locks = OrderLocks(metadata, clock, LockLimits(total=2))
    assert locks.lock("g", [Q0, Q1, Q2], "a") == [Q0, Q1]
    assert locks.lock("h", [Q0], "a") == []
    locks.unlock("g", [Q0], "a")
    assert locks.lock("h", [Q0], "a") == [Q0]


async def test_no_group_and_no_connection_takes_all(
    metadata: Metadata, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    locks = OrderLocks(metadata, clock, LockLimits(of_group=2))
    first, second = object(), object()
    assert locks.lock("g", [Q0, Q1, Q2], "a", first) == [Q0, Q1]
    assert "the group has 2 locks (maxOrderLocksOfGroup)" in caplog.text
    assert locks.lock("h", [Q0], "a", first) == []
    assert "its connection has 2 locks (maxOrderLocksOfGroup)" in caplog.text
    assert locks.lock("h", [Q0, Q1], "a", second) == [Q0, Q1]
    assert locks.lock("g", [Q0], "a", second) == [Q0]  # it has come back by another connection
    assert locks.lock("i", [Q0, Q1], "a", first) == [Q0]
    locks.unlock("g", [Q0, Q1], "a")
    assert locks.lock("i", [Q0, Q1], "a", first) == [Q0, Q1]
    await clock.advance(61)
    await locks.expire()
    assert locks.lock("g", [Q0, Q1], "a", first) == [Q0, Q1]


async def test_expired_locks_make_room(metadata: Metadata, clock: VirtualClock) -> None:
    locks = OrderLocks(metadata, clock, LockLimits(total=2))
    locks.lock("g", [Q0, Q1], "a")
    await clock.advance(61)
    assert locks.lock("h", [Q0, Q1, Q2], "a") == [Q0, Q1]
    assert not locks.holds_any("g")


async def test_many_expire_a_few_a_turn(
    locks: OrderLocks,
    metadata: Metadata,
    clock: VirtualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_locks, "EXPIRED_PER_TURN_MAX", 3)
    for group in ("g", "h"):
        locks.lock(group, [MessageQueue("T", "broker-a", n) for n in range(5)], "a")
    await clock.advance(61)
    locks.lock("h", [Q0], "a")
    sweep = asyncio.ensure_future(locks.expire())
    await settle(1)
    assert len(locks) == 7
    await sweep
    assert [row[0] for row in metadata.order_locks()] == ["h"]
    assert len(locks) == 1


async def test_a_request_that_finds_no_room_does_not_search_for_each_queue(
    metadata: Metadata, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = OrderLocks(metadata, clock, LockLimits(total=1))
    locks.lock("g", [Q0], "a")
    searches = 0

    def is_expired(lock: object, now_s: float) -> bool:
        nonlocal searches
        searches += 1
        return False

    monkeypatch.setattr(order_locks, "_is_expired", is_expired)
    assert locks.lock("h", [MessageQueue("T", "broker-a", n) for n in range(100)], "a") == []
    assert searches == 1
    await clock.advance(1)
    assert locks.lock("h", [Q1, Q2], "a") == []
    assert searches == 2


def test_a_full_disk_does_not_end_consumption(
    locks: OrderLocks,
    metadata: Metadata,
    disk_full: Callable[[], None],
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
) -> None:
    disk_full()
    queues = [MessageQueue("T" * 200, "broker-a", number) for number in range(1000)]
    assert locks.lock("g", queues, "a") == queues
    assert "would be forgotten by a restart" in caplog.text
    assert locks.lock("g", queues, "b") == []
    locks.unlock("g", queues, "a")
    assert locks.lock("g", [queues[0]], "b") == [queues[0]]
