from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.stores import (
    SMALL,
    TOPIC,
    abandon,
    append,
    bodies,
    measure_disk,
    messages,
    open_store,
    put,
    segment_files,
)

from pocketmq.broker.store import retention as retention_module
from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.broker.store.disk.freeing import Freeing
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock, settle

HOUR_S = 3600
HOUR_MS = 3_600_000


@pytest_asyncio.fixture
async def store(data: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    store = open_store(data, clock)
    yield store
    await store.close()


async def run(retention: Retention, store: MessageStore) -> int:
    """A round, and the checkpoint that follows it in a broker."""
    removed = await retention.run()
    await store.checkpoint()
    return removed


async def test_whole_segments_go_when_their_last_record_is_too_old(
    store: MessageStore, clock: VirtualClock
) -> None:
    retention = Retention(store, Live(10 * HOUR_MS))
    for index in range(6):  # two to a segment
        put(store, b"%d" % index * 380)
        await clock.advance(HOUR_S)
    await store.checkpoint()
    queue_log = store.queue_log(TOPIC, 0)
    assert await run(retention, store) == 0
    await clock.advance(5 * HOUR_S)  # the second record is exactly ten hours old
    assert await run(retention, store) == 0
    await clock.advance(0.001)
    assert await run(retention, store) == 1
    assert (queue_log.min_offset, queue_log.max_offset) == (2, 6)
    await clock.advance(2 * HOUR_S)
    assert await run(retention, store) == 1
    assert [m.queue_offset for m in messages(queue_log)] == [4, 5]


async def test_a_queue_that_was_emptied_goes_on_at_its_offset(
    store: MessageStore, clock: VirtualClock, data: Path
) -> None:
    retention = Retention(store, Live(HOUR_MS))
    put(store, *[bytes(100)] * 5)
    await store.checkpoint()
    await clock.advance(2 * HOUR_S)
    assert await run(retention, store) == 0  # the new segment comes to the disk first
    assert await run(retention, store) == 1
    assert await run(retention, store) == 0
    assert len(segment_files(data)) == 1
    await store.close()
    store.__init__(data, SMALL, clock)  # type: ignore[misc]
    queue_log = store.queue_log(TOPIC, 0)
    assert (queue_log.min_offset, queue_log.max_offset) == (5, 5)
    assert queue_log.offset_at_time(0) == 5
    put(store, b"x")
    assert [m.queue_offset for m in messages(queue_log)] == [5]


async def test_an_empty_segment_survives_a_crash(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    await store.checkpoint()
    await clock.advance(2 * HOUR_S)
    retention = Retention(store, Live(HOUR_MS))
    for _ in range(2):
        await run(retention, store)
    abandon(store)
    store = open_store(data, clock)
    assert store.queue_log(TOPIC, 0).max_offset == 1
    await store.checkpoint()
    put(store, b"y")
    await store.close()


async def test_what_is_being_sent_is_not_in_the_way(
    store: MessageStore, clock: VirtualClock
) -> None:
    retention = Retention(store, Live(HOUR_MS))
    put(store, b"old")
    await store.checkpoint()
    await clock.advance(2 * HOUR_S)
    outcome = append(store, b"new")
    await run(retention, store)
    store.commit()
    assert outcome.is_stored
    await run(retention, store)
    assert bodies(store)[-1] == b"new"


async def test_only_so_many_segments_go_in_one_round(
    store: MessageStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "SEGMENTS_PER_ROUND_MAX", 3)
    put(store, *[bytes(900)] * 6)
    await store.checkpoint()
    await clock.advance(2 * HOUR_S)
    retention = Retention(store, Live(HOUR_MS))
    assert await run(retention, store) == 3
    assert store.queue_log(TOPIC, 0).min_offset == 3


async def test_a_full_disk_takes_the_oldest_finished_segments_of_all_queues(
    store: MessageStore, clock: VirtualClock, data: Path
) -> None:
    for index in range(3):
        for queue_id in (0, 1):
            put(store, b"%d" % index * 900, queue_id=queue_id)
            await clock.advance(60)
    await store.checkpoint()

    def measure(_: Path) -> DiskUse:
        used = sum(q.size for q in store.logs.open_logs()) // 100
        return DiskUse(100, used, 100 - used)

    measure_disk(store, 100.0, 35.0, 1000, measure)
    retention = Retention(store, Live(1000 * HOUR_MS))
    assert await retention.run() == 3
    assert [store.queue_log(TOPIC, q).min_offset for q in (0, 1)] == [2, 1]
    measure_disk(store, 100.0, 1.0, 1000, measure)
    assert await retention.run() == 1
    assert [len(bodies(store, queue_id=q)) for q in (0, 1)] == [1, 1]


async def test_a_damaged_queue_does_not_keep_the_others(
    data: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(data, clock)
    put(store, *[bytes(900)] * 3)
    put(store, *[bytes(900)] * 3, queue_id=1)
    await store.close()
    missing = segment_files(data)[1]
    content = missing.read_bytes()
    missing.unlink()
    await clock.advance(2 * HOUR_S)
    store = open_store(data, clock)
    retention = Retention(store, Live(HOUR_MS))
    assert await retention.run() == 2
    await retention.run()
    assert caplog.text.count(f"queue 0 of {TOPIC} is not served") == 1
    await store.close()
    missing.write_bytes(content)
    store = open_store(data, clock)
    assert len(bodies(store)) == 3
    await store.close()


class Gate(Freeing):
    """Frees space only when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = asyncio.Event()
        self.opened = asyncio.Event()

    async def wait(self) -> None:
        self.waiting.set()
        await self.opened.wait()


async def test_a_topic_may_be_deleted_while_its_segments_are_freed(
    store: MessageStore, clock: VirtualClock, data: Path
) -> None:
    put(store, *[bytes(900)] * 4)
    await store.checkpoint()
    gate = store.files.freeing = Gate()
    measure_disk(store, 100.0, 1.0, 1000, lambda _: DiskUse(100, 99, 1))
    running = asyncio.ensure_future(Retention(store, Live(HOUR_MS)).run())
    await gate.waiting.wait()
    await store.delete_topic(TOPIC)
    gate.opened.set()
    assert await running == 1
    assert segment_files(data) == []


async def test_the_space_of_a_segment_is_free_before_the_disk_is_judged_again(
    store: MessageStore, data: Path
) -> None:
    put(store, *[bytes(900)] * 4)
    await store.checkpoint()
    gate = store.files.freeing = Gate()
    used = 99
    measure_disk(store, 100.0, 50.0, 1000, lambda _: DiskUse(100, used, 100 - used))
    running = asyncio.ensure_future(Retention(store, Live(HOUR_MS)).run())
    await gate.waiting.wait()
    used = 10
    gate.opened.set()
    assert await running == 1


async def test_many_logs_are_looked_at_in_turns(
    store: MessageStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "LOGS_PER_TURN", 2)
    for queue_id in range(5):
        put(store, b"x", queue_id=queue_id)
    turns: list[None] = []
    rounds = asyncio.ensure_future(Retention(store, Live(HOUR_MS)).run())
    while not rounds.done():
        turns.append(None)
        await settle(1)
    assert len(turns) >= 3
