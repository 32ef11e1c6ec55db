"""Group commit, and what a disk that is slow, fails or loses power does to it."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.disks import PowerCutFiles, SlowFiles
from support.store.stores import (
    TOPIC,
    Outcome,
    abandon,
    append,
    assert_sound,
    bodies,
    messages,
    open_store,
    put,
)

from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.queue_log import WRITTEN
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.store.writing.flusher import FlushTimeoutError
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock, settle

SYNC = StoreSettings(segment_size=1000, flush_sync=True, flush_timeout_ms=5000, disk_free_min=0)


@pytest_asyncio.fixture
async def files() -> AsyncIterator[SlowFiles]:
    files = SlowFiles()
    yield files
    files.gate.set()


@pytest_asyncio.fixture
async def store(data: Path, clock: VirtualClock, files: SlowFiles) -> AsyncIterator[MessageStore]:
    store = open_store(data, clock, SYNC, files)
    yield store
    files.gate.set()
    await store.close()


def commit(store: MessageStore, *contents: bytes, queue_id: int = 0) -> list[Outcome]:
    """Several appends of one turn that want the disk."""
    outcomes = [append(store, content, queue_id=queue_id) for content in contents]
    store.commit()
    return outcomes


class Syncs:
    """Lets a test wait until a sync of a file has begun, in its thread."""

    def __init__(self, files: SlowFiles) -> None:
        self._loop = asyncio.get_running_loop()
        self._begun: asyncio.Queue[Path] = asyncio.Queue()
        files.on_sync = self._note

    def _note(self, path: Path) -> None:
        self._loop.call_soon_threadsafe(self._begun.put_nowait, path)

    async def next(self) -> Path:
        return await self._begun.get()


async def test_nobody_is_told_before_the_disk_has_it(store: MessageStore, files: SlowFiles) -> None:
    syncs = Syncs(files)
    files.gate.clear()
    outcomes = commit(store, b"a", b"b")
    await syncs.next()
    assert bodies(store) == [b"a", b"b"]
    assert not any(outcome.is_told for outcome in outcomes)
    files.gate.set()
    await store.drain()
    assert all(outcome.is_stored for outcome in outcomes)
    assert files.synced[".log"] == 1


async def test_who_does_not_wait_is_told_at_once(store: MessageStore, files: SlowFiles) -> None:
    files.gate.clear()
    patient, hasty = append(store, b"a"), append(store, b"b", durability=WRITTEN)
    store.commit()
    assert hasty.is_stored
    assert not patient.is_told


async def test_nobody_who_waits_means_no_flush(store: MessageStore, files: SlowFiles) -> None:
    put(store, b"a")
    await store.drain()
    assert not files.synced


async def test_what_comes_during_a_flush_is_flushed_together(
    store: MessageStore, files: SlowFiles
) -> None:
    syncs = Syncs(files)
    files.gate.clear()
    outcomes = commit(store, b"0")
    await syncs.next()
    for index in range(1, 20):
        outcomes += commit(store, b"%d" % index)
    files.gate.set()
    await store.drain()
    assert all(outcome.is_stored for outcome in outcomes)
    assert files.synced[".log"] <= 2 + len(store.queue_log(TOPIC, 0).segments)


async def test_logs_are_flushed_side_by_side(store: MessageStore, files: SlowFiles) -> None:
    syncs = Syncs(files)
    files.gate.clear()
    outcomes = [*commit(store, b"0", queue_id=0), *commit(store, b"1", queue_id=1)]
    assert {(await syncs.next()).parent.name for _ in range(2)} == {"0", "1"}
    files.gate.set()
    await store.drain()
    assert all(outcome.is_stored for outcome in outcomes)


async def test_a_slow_disk_is_reported_in_time_and_the_data_is_there(
    store: MessageStore, files: SlowFiles, clock: VirtualClock
) -> None:
    syncs = Syncs(files)
    files.gate.clear()
    (first,) = commit(store, b"first")
    await syncs.next()
    await clock.advance(1)
    (second,) = commit(store, b"second")
    await clock.advance(4)
    assert isinstance(first.error, FlushTimeoutError)
    assert "longer than 5000 ms" in str(first.error)
    assert not second.is_told
    await clock.advance(1)
    assert isinstance(second.error, FlushTimeoutError)
    # Also those that come when their group has already been told of its time-out.
    (third,) = commit(store, b"third")
    await clock.advance(4.9)
    assert not third.is_told
    await clock.advance(0.1)
    assert isinstance(third.error, FlushTimeoutError)
    assert bodies(store) == [b"first", b"second", b"third"]
    files.gate.set()
    await store.drain()
    assert clock.pending_timers == 0
    assert store.refusal is None
    (fourth,) = commit(store, b"fourth")
    await store.drain()
    assert fourth.is_stored


async def test_after_a_failed_flush_no_later_one_is_believed(
    store: MessageStore, files: SlowFiles
) -> None:
    """The system reports a failure once, drops the data, and calls the next flush a success."""
    syncs = Syncs(files)
    files.gate.clear()
    (first,) = commit(store, b"first")
    await syncs.next()
    (second,) = commit(store, b"second")
    (other,) = commit(store, b"other", queue_id=1)
    files.error = errno.EIO
    files.gate.set()
    await store.drain()
    files.error = None
    for outcome in (first, second, other):
        assert isinstance(outcome.error, WriteFailedError)
    assert store.refusal is not None
    assert "Input/output error" in store.refusal
    assert "must be restarted after the disk is repaired" in store.refusal
    (late,) = commit(store, b"late")
    await store.drain()
    assert isinstance(late.error, WriteFailedError)
    assert bodies(store)[:2] == [b"first", b"second"]


async def test_a_failed_store_is_not_stopped_cleanly(
    tmp_path: Path, clock: VirtualClock, files: SlowFiles
) -> None:
    store = open_store(tmp_path / "data", clock, SYNC, files)
    commit(store, b"x")
    files.error = errno.EIO
    await store.drain()
    await store.close()
    store = open_store(tmp_path / "data", clock)
    assert not store.was_clean
    assert bodies(store) == [b"x"]
    await store.close()
    assert_sound(tmp_path / "data")


async def test_a_checkpoint_and_a_flush_of_one_log_do_not_overlap(
    store: MessageStore, files: SlowFiles
) -> None:
    """Else one of the two could get the success that follows the other's failure."""
    syncs = Syncs(files)
    files.gate.clear()
    (outcome,) = commit(store, b"x")
    await syncs.next()
    checkpoint = asyncio.ensure_future(store.checkpoint())
    await settle()
    files.error = errno.EIO
    files.gate.set()
    await checkpoint
    await store.drain()
    assert isinstance(outcome.error, WriteFailedError)
    assert store.metadata.queue_logs()[0].checkpoint.position == 0


async def test_a_topic_may_be_deleted_while_it_is_flushed(
    store: MessageStore, files: SlowFiles
) -> None:
    syncs = Syncs(files)
    files.gate.clear()
    (outcome,) = commit(store, b"x")
    await syncs.next()
    deletion = store.delete_topic(TOPIC)
    files.gate.set()
    await store.drain()
    await deletion
    assert outcome.is_stored
    assert store.disk.failed_reason is None
    (again,) = commit(store, b"again")
    await store.drain()
    assert again.is_stored


async def test_a_file_that_vanished_is_a_failure(store: MessageStore, data: Path) -> None:
    put(store, b"x")
    path = store.queue_log(TOPIC, 0).segments[0].log_path
    content = path.read_bytes()
    path.unlink()
    (outcome,) = commit(store, b"y")
    await store.drain()
    assert isinstance(outcome.error, WriteFailedError)
    assert "No such file" in str(store.disk.failed_reason)
    path.write_bytes(content)
    path.with_suffix(".idx").unlink()
    await store.close()
    store.files = Files()
    reopened = open_store(data, store.clock)
    assert bodies(reopened) == [b"x"]
    await reopened.close()


async def test_a_checkpoint_that_is_cancelled_is_made_up_for(
    store: MessageStore, files: SlowFiles
) -> None:
    put(store, b"x")
    syncs = Syncs(files)
    files.gate.clear()
    checkpoint = asyncio.ensure_future(store.checkpoint())
    await syncs.next()
    checkpoint.cancel()
    await settle()
    files.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await checkpoint
    await store.checkpoint()
    assert store.metadata.queue_logs()[0].checkpoint.offset == 1


async def test_a_failure_is_known_even_if_its_checkpoint_is_cancelled(
    store: MessageStore, files: SlowFiles
) -> None:
    put(store, b"x")
    syncs = Syncs(files)
    files.gate.clear()
    checkpoint = asyncio.ensure_future(store.checkpoint())
    await syncs.next()
    checkpoint.cancel()
    await settle()
    files.error = errno.EIO
    files.gate.set()
    with pytest.raises(asyncio.CancelledError):
        await checkpoint
    assert store.disk.failed_reason is not None


async def test_what_a_killed_process_left_in_memory_is_brought_to_the_disk(
    data: Path, clock: VirtualClock, files: SlowFiles
) -> None:
    store = open_store(data, clock)
    put(store, b"x")
    await store.checkpoint()
    put(store, b"y")
    abandon(store)
    store = open_store(data, clock, SYNC, files)
    (outcome,) = commit(store, b"z")
    await store.drain()
    assert outcome.is_stored
    await store.checkpoint()
    assert (files.synced[".log"], files.synced[".idx"]) == (1, 1)
    await store.checkpoint()
    assert (files.synced[".log"], files.synced[".idx"]) == (1, 1)
    await store.close()


async def test_a_checkpoint_brings_to_the_disk_what_was_recovered(
    data: Path, clock: VirtualClock, files: SlowFiles
) -> None:
    store = open_store(data, clock)
    put(store, *[bytes(900)] * 2)
    await store.checkpoint()
    put(store, *[bytes(900)] * 2)
    abandon(store)
    store = open_store(data, clock, SYNC, files)
    assert store.log_checks.finish()
    await store.checkpoint()
    assert (files.synced[".log"], files.synced[".idx"]) == (2, 2)
    assert store.metadata.queue_logs()[0].checkpoint.offset == 4
    await store.close()


# -- power cuts -------------------------------------------------------------------------------


Scenario = Callable[[MessageStore], None]


async def stored_on_disk(store: MessageStore, count: int, size: int = 200) -> None:
    """Sends that are acknowledged, spread over two queues, in groups of three."""
    for start in range(0, count, 3):
        outcomes = []
        for index in range(start, start + 3):
            outcomes += commit(store, b"%d" % index * size, queue_id=index % 2)
        await store.drain()
        assert all(outcome.is_stored for outcome in outcomes)


@pytest.mark.parametrize("checkpoints", [0, 1, 2])
async def test_a_power_cut_takes_nothing_that_was_acknowledged(
    tmp_path: Path, clock: VirtualClock, checkpoints: int
) -> None:
    files = PowerCutFiles()
    directory = tmp_path / "data"
    store = open_store(directory, clock, SYNC, files)
    for _ in range(checkpoints):
        await stored_on_disk(store, 9)
        await store.checkpoint()
        store.metadata.sync()
    await stored_on_disk(store, 9)
    expected = [bodies(store, queue_id=0), bodies(store, queue_id=1)]
    put(store, b"not acknowledged as being on the disk")
    files.left_after_power_cut(directory, tmp_path / "left")
    abandon(store)
    store = open_store(tmp_path / "left", clock, SYNC)
    assert [bodies(store, queue_id=0), bodies(store, queue_id=1)] == expected
    await store.close()
    assert_sound(tmp_path / "left")


async def test_a_checkpoint_vouches_for_the_index_too(tmp_path: Path, clock: VirtualClock) -> None:
    """The log may have been flushed long before; the index is flushed by checkpoints only."""
    files = PowerCutFiles()
    store = open_store(tmp_path / "data", clock, SYNC, files)
    await stored_on_disk(store, 18)
    await store.checkpoint()
    store.metadata.sync()
    files.left_after_power_cut(tmp_path / "data", tmp_path / "left")
    abandon(store)
    assert_sound(tmp_path / "left")


async def test_a_power_cut_during_retention_keeps_the_offset(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """The last segment goes only when the empty one behind it is on the disk."""
    files = PowerCutFiles()
    store = open_store(tmp_path / "data", clock, SYNC, files)
    await stored_on_disk(store, 6)
    await store.checkpoint()
    store.metadata.sync()
    await clock.advance(3600)
    retention = Retention(store, Live(1000))
    for step in range(4):
        await retention.run()
        left = tmp_path / f"left-{step}"
        files.left_after_power_cut(tmp_path / "data", left)
        other = open_store(left, clock, SYNC)
        queue_log = other.find_log(TOPIC, 0)
        assert queue_log is not None
        assert queue_log.max_offset == 3
        put(other, b"next")
        assert messages(queue_log)[-1].queue_offset == 3
        await other.close()
        assert_sound(left)
        if step % 2:
            await store.checkpoint()
    assert bodies(store) == []
    await store.close()
