from __future__ import annotations

import errno
from pathlib import Path

import pytest
from support.store.disks import FailingFiles
from support.store.stores import damage, open_store, record_of

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.transactions.half_states import COMMITTED, ROLLED_BACK
from pocketmq.broker.transactions.operations import (
    CUT,
    OFFSETS_PER_RECORD_MAX,
    RETRY_MS,
    Operations,
)
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.names import names
from pocketmq.testing.clock import VirtualClock, settle

LARGE = StoreSettings(disk_free_min=0)


async def test_what_is_written_is_read_again(tmp_path: Path, clock: VirtualClock) -> None:
    store = open_store(tmp_path / "data", clock, LARGE)
    operations = Operations(store, store.clock, Appender(store))
    assert operations.log is None
    assert list(operations.replay(0)) == []
    count = OFFSETS_PER_RECORD_MAX + 1
    for offset in range(count):
        operations.add(offset, COMMITTED)
    operations.add(7, ROLLED_BACK)
    await settle()
    operations.add(9, CUT)
    await settle()
    everything = list(operations.replay(0))
    assert [(outcome, len(offsets)) for outcome, offsets in everything] == [
        (COMMITTED, OFFSETS_PER_RECORD_MAX), (COMMITTED, 1), (ROLLED_BACK, 1), (CUT, 1),
    ]  # fmt: skip
    assert everything[0][1] + everything[1][1] == list(range(count))
    assert list(operations.replay(2)) == [(ROLLED_BACK, [7]), (CUT, [9])]
    await store.close()


async def test_damaged_records_are_left_out(
    tmp_path: Path, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store(tmp_path / "data", clock, LARGE)
    operations = Operations(store, store.clock, Appender(store))
    queue_log = store.queue_log(names.OP_HALF_TOPIC, 0)
    for body in (b"1,2", b"1,x,", b",,3,", b"5555,", b"4", b"5555,"):
        queue_log.append(record_of(queue_log, body), 0, None)
    store.schedule_commit(queue_log)
    store.commit()
    path = queue_log.segments[0].log_path
    damage(path, path.read_bytes().index(b"5555"), b"7")
    damage(path, path.read_bytes().rindex(b"5555"), b"7")
    assert [offsets for _, offsets in operations.replay(0)] == [[1, 2], [3], [4]]
    for offset in (1, 3, 5):
        assert f"the op record at {offset} cannot be read" in caplog.text
    await store.close()


async def test_a_failed_write_is_repeated_unless_somebody_is_told(
    tmp_path: Path, clock: VirtualClock
) -> None:
    files = FailingFiles()
    store = open_store(tmp_path / "data", clock, LARGE, files)
    operations = Operations(store, store.clock, Appender(store))
    told: list[OperatingError | None] = []
    operations.add(1, COMMITTED)
    await settle()
    files.fail_after(0, errno.EIO, failures=None)
    operations.add(2, COMMITTED)
    operations.add(3, COMMITTED, told.append)
    await settle()
    assert [error is not None for error in told] == [True]
    await clock.advance(RETRY_MS / 1000)
    assert [offsets for _, offsets in operations.replay(0)] == [[1]]
    files.heal()
    operations.add(4, COMMITTED)
    await clock.advance(RETRY_MS / 1000)
    assert sorted(o for _, offsets in operations.replay(0) for o in offsets) == [1, 2, 4]
    await store.close()


async def test_who_wants_to_know_does_not_wait_for_a_repetition(
    tmp_path: Path, clock: VirtualClock
) -> None:
    files = FailingFiles()
    store = open_store(tmp_path / "data", clock, LARGE, files)
    operations = Operations(store, store.clock, Appender(store))
    told: list[OperatingError | None] = []
    files.fail_after(0, errno.EIO, failures=None)
    operations.add(1, COMMITTED)
    await settle()
    files.heal()
    timers = clock.pending_timers
    operations.add(2, COMMITTED, told.append)
    await settle()
    assert told == [None]
    assert [offsets for _, offsets in operations.replay(0)] == [[1, 2]]
    assert clock.pending_timers == timers - 1
    await store.close()


async def test_nothing_is_written_behind_the_end(tmp_path: Path, clock: VirtualClock) -> None:
    files = FailingFiles()
    store = open_store(tmp_path / "data", clock, LARGE, files)
    operations = Operations(store, store.clock, Appender(store))
    files.fail_after(0, errno.EIO, failures=None)
    operations.add(1, COMMITTED)
    await settle()
    timers = clock.pending_timers
    operations.close()
    assert clock.pending_timers == timers - 1
    await store.close()
