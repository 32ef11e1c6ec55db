from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import bodies, damage, open_store, record_of

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.delay.delivery import DELIVERIES_PER_TURN_MAX, RETRY_MS
from pocketmq.broker.delay.level_delivery import LevelDelivery
from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.names.names import SCHEDULE_TOPIC
from pocketmq.testing.clock import VirtualClock, settle

DELAY_MS = 1000


def append_delayed(store: MessageStore, *messages: bytes) -> None:
    """Messages that are due a second from now."""
    queue_log = store.queue_log(SCHEDULE_TOPIC, 0)
    now = store.store_time(queue_log)
    for body in messages:
        queue_log.append(record_of(queue_log, body, store_time_ms=now), now + DELAY_MS, None)
    store.schedule_commit(queue_log)
    store.commit()


async def test_what_cannot_be_stored_holds_up_what_is_behind_it(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    failures = 2

    def target(message: StoredMessage) -> QueueLog | None:
        nonlocal failures
        if message.body == b"dropped":
            return None
        if message.body == b"2" and failures:
            failures -= 1
            raise WriteFailedError("not now")
        return store.queue_log("Orders", 0)

    delivery = LevelDelivery(store, clock, Appender(store), 0, DELAY_MS, 0, target)
    append_delayed(store, b"0", b"dropped", b"1", b"2", b"3", b"dropped")
    delivery.open()
    await clock.advance(1.001)
    assert bodies(store) == [b"0", b"1"]
    assert delivery.offset == 3
    await clock.advance(RETRY_MS / 1000)
    assert (failures, delivery.offset) == (0, 3)
    await clock.advance(RETRY_MS / 1000)
    assert bodies(store) == [b"0", b"1", b"2", b"3"]
    assert delivery.offset == 6
    assert not clock.pending_timers
    delivery.stop()
    await store.close()


async def test_each_comes_at_its_own_time(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    delivered_ms: list[int] = []

    def target(_: StoredMessage) -> None:
        delivered_ms.append(clock.now_ms())

    delivery = LevelDelivery(store, clock, Appender(store), 0, DELAY_MS, 0, target)
    delivery.open()
    due_ms = []
    for _ in range(20):
        append_delayed(store, b"x")
        delivery.wake()
        due_ms.append(clock.now_ms() + DELAY_MS)
        await clock.advance(0.001)
    await clock.advance(2)
    assert delivered_ms == due_ms
    delivery.stop()
    await store.close()


async def test_a_turn_delivers_so_many_at_the_most(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    count = 3 * DELIVERIES_PER_TURN_MAX + 1
    delivery = LevelDelivery(
        store, store.clock, Appender(store), 0, DELAY_MS, 0, lambda _: store.queue_log("Orders", 0)
    )
    append_delayed(store, *(b"%d" % index for index in range(count)))
    before = store.counters.total.messages
    grown = []
    store.committer.appended.add(lambda queue_log: grown.append(queue_log.end_offset))
    await clock.advance(5)
    delivery.open()
    while store.counters.total.messages < before + count:
        await settle(1)
    assert grown == [DELIVERIES_PER_TURN_MAX * turn for turn in (1, 2, 3)] + [count]
    delivery.stop()
    await store.close()


async def test_nothing_is_delivered_after_a_stop(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    delivery = LevelDelivery(
        store, store.clock, Appender(store), 0, DELAY_MS, 0, lambda _: store.queue_log("Orders", 0)
    )
    append_delayed(store, b"x")
    delivery.open()
    await settle()
    delivery.stop()
    await clock.advance(5)
    delivery.wake()
    await clock.advance(5)
    assert not bodies(store)
    await store.close()


async def test_an_offset_outside_of_the_queue_is_corrected(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """A power cut may have taken messages that were delivered already."""
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    append_delayed(store, b"x")
    delivery = LevelDelivery(
        store, store.clock, Appender(store), 0, DELAY_MS, 9, lambda _: store.queue_log("Orders", 0)
    )
    delivery.open()
    assert (delivery.offset, delivery.progress.advance()) == (1, 1)
    append_delayed(store, b"y")
    delivery.wake()
    await clock.advance(2)
    assert bodies(store) == [b"y"]
    delivery.stop()
    await store.close()


async def test_a_damaged_message_is_not_delivered_and_not_passed_over(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "data", clock, StoreSettings(disk_free_min=0))
    delivery = LevelDelivery(
        store, store.clock, Appender(store), 0, DELAY_MS, 0, lambda _: store.queue_log("Orders", 0)
    )
    append_delayed(store, b"first", b"second", b"third")
    path = store.queue_log(SCHEDULE_TOPIC, 0).segments[0].log_path
    sound = path.read_bytes()
    damage(path, sound.index(b"second"))
    delivery.open()
    await clock.advance(10)
    assert bodies(store) == [b"first"]
    assert [record.message for record in caplog.records if "damaged" in record.message] == [
        f"delay level 1 cannot be delivered, it is tried again every {RETRY_MS} ms: the waiting "
        f"message at offset 1 is damaged on the disk"
    ], "once"
    path.write_bytes(sound)
    await clock.advance(RETRY_MS / 1000)
    assert bodies(store) == [b"first", b"second", b"third"]
    delivery.stop()
    await store.close()
