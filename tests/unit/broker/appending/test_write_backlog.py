from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store import stores
from support.store.disks import SlowFiles
from support.store.stores import TOPIC, open_store

from pocketmq.broker.appending.write_backlog import BacklogSettings, WriteBacklog
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection
from pocketmq.transport.reading_state import Hold

SETTINGS = BacklogSettings(size_max=1000)
SYNC = StoreSettings(flush_sync=True, flush_timeout_ms=5000)


class Sender(Connection):
    """A connection without a socket, that counts how often it is held."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock, {})
        self.holds = 0

    def receive(self) -> Sender:
        """A chunk has come."""
        self._last_activity = self.clock.monotonic()
        return self

    def hold_reading(self, reason: Hold) -> None:
        self.holds += 1

    def release_reading(self, reason: Hold) -> None:
        self.holds -= 1


@pytest.fixture
def files() -> SlowFiles:
    return SlowFiles()


@pytest_asyncio.fixture
async def store(
    tmp_path: Path, clock: VirtualClock, files: SlowFiles
) -> AsyncIterator[MessageStore]:
    store = open_store(tmp_path / "data", clock, SYNC, files, range(64))
    yield store
    files.gate.set()
    await store.close()


def append(store: MessageStore, backlog: WriteBacklog, sender: Sender, size: int = 100) -> None:
    """Handles a send that comes in a chunk of its own."""

    def handler(_: Command, __: Connection) -> None:
        stores.append(store, bytes(size))

    store.committer.read_begins()
    try:
        backlog.guard(310, handler)(Command(310), sender)
    finally:
        store.committer.read_ends()


async def test_what_waited_too_long_for_its_turn_is_refused(
    store: MessageStore, clock: VirtualClock
) -> None:
    backlog = WriteBacklog(store.committer, store.flusher, Live(SETTINGS))
    append(store, backlog, Sender(clock).receive())
    clock.block(0.2)
    append(store, backlog, Sender(clock).receive())
    clock.block(0.001)
    with pytest.raises(ResponseError, match=re.escape("[TIMEOUT_CLEAN_QUEUE]broker busy")) as e:
        append(store, backlog, Sender(clock).receive())
    assert e.value.code == ResponseCode.SYSTEM_BUSY
    assert "waited 201 ms" in str(e.value)
    assert backlog.refused_count == 1
    await settle()
    append(store, backlog, Sender(clock).receive())  # the next turn begins anew


async def test_nothing_is_refused_when_that_is_off(
    store: MessageStore, clock: VirtualClock, files: SlowFiles
) -> None:
    files.gate.clear()
    backlog = WriteBacklog(store.committer, store.flusher, Live(BacklogSettings(is_enabled=False)))
    append(store, backlog, Sender(clock).receive())
    clock.block(3)
    append(store, backlog, Sender(clock).receive())
    await settle()
    clock.block(4)
    append(store, backlog, Sender(clock).receive())


async def test_while_the_disk_stalls_others_are_refused(
    store: MessageStore, clock: VirtualClock, files: SlowFiles
) -> None:
    files.gate.clear()
    backlog = WriteBacklog(store.committer, store.flusher, Live(SETTINGS))
    append(store, backlog, Sender(clock).receive())
    await settle()
    await clock.advance(1)
    append(store, backlog, Sender(clock).receive())
    await settle()
    await clock.advance(0.1)
    with pytest.raises(ResponseError, match=re.escape("[PCBUSY_CLEAN_QUEUE]broker busy")) as e:
        append(store, backlog, Sender(clock).receive())
    assert e.value.code == ResponseCode.SYSTEM_BUSY
    assert "flushing for 1100 ms" in str(e.value)
    files.gate.set()
    await store.drain()
    append(store, backlog, Sender(clock).receive())


async def test_senders_are_held_while_too_much_waits_for_the_disk(
    store: MessageStore, clock: VirtualClock, files: SlowFiles
) -> None:
    files.gate.clear()
    backlog = WriteBacklog(store.committer, store.flusher, Live(SETTINGS))
    first, second = Sender(clock).receive(), Sender(clock).receive()
    append(store, backlog, first, 2000)
    await settle()
    assert store.flusher.waiting_size > 2000
    append(store, backlog, second)
    append(store, backlog, second)
    assert (first.holds, second.holds, backlog.held_count) == (0, 1, 1)
    files.gate.set()
    await store.drain()
    assert (second.holds, backlog.held_count, store.flusher.waiting_size) == (0, 0, 0)


async def test_a_flush_that_ran_out_of_time_frees_what_waited(
    store: MessageStore, clock: VirtualClock, files: SlowFiles
) -> None:
    files.gate.clear()
    backlog = WriteBacklog(store.committer, store.flusher, Live(SETTINGS))
    sender = Sender(clock).receive()
    append(store, backlog, sender, 2000)
    await settle()
    append(store, backlog, sender)
    assert sender.holds == 1
    await clock.advance(5)
    assert sender.holds == 0
    assert store.flusher.oldest_wait_s() == 0


async def test_many_chunks_are_written_before_the_turn_ends(
    store: MessageStore, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.broker.store.writing.committer.COMMIT_READS_MAX", 3)
    backlog, queue_log = (
        WriteBacklog(store.committer, store.flusher, Live(SETTINGS)),
        store.queue_log(TOPIC, 0),
    )
    ends = []
    for _ in range(8):
        append(store, backlog, Sender(clock).receive())
        ends.append(queue_log.end_offset)
    assert ends == [0, 0, 0, 4, 4, 4, 7, 7]
    assert store.committer.waiting_since_s == clock.monotonic()
    await store.drain()
    assert queue_log.end_offset == 8
