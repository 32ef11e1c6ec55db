"""What an earlier run left is checked before it is served, and only once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import RECORD_OVERHEAD, abandon, damage, open_store, put, segment_files

from pocketmq.broker.store import verification
from pocketmq.broker.store.disk.errors import DamagedQueueError
from pocketmq.broker.store.log.readable_log import Slice
from pocketmq.broker.store.log.segment import HEADER_SIZE
from pocketmq.broker.store.settings import StoreSettings
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.messages.records import check_record, decode_records
from pocketmq.testing.clock import VirtualClock

SIZE = RECORD_OVERHEAD + 4


async def reopened(directory: Path, clock: VirtualClock, damaged: int | None) -> MessageStore:
    """A store of ten records of four bytes, one of them perhaps damaged in its body."""
    settings = StoreSettings(segment_size=1 << 20, disk_free_min=0)
    store = open_store(directory, clock, settings)
    put(store, *[b"%04d" % index for index in range(10)])
    await store.close()
    if damaged is not None:
        damage(segment_files(directory)[0], HEADER_SIZE + damaged * SIZE + 90)
    return open_store(directory, clock, settings)


def read(store: MessageStore, offset: int, count: int) -> Slice:
    queue_log = store.queue_log("Orders", 0)
    assert queue_log.unverified_end == 10
    return store.verified(queue_log, offset, queue_log.read(offset, count, 1 << 20))


async def test_records_before_the_damaged_one_are_served(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = await reopened(tmp_path, clock, damaged=3)
    part = read(store, 1, 8)
    assert [m.queue_offset for m in decode_records(part.data)] == [1, 2]
    assert part == (part.data, 2, 3)
    for _ in range(2):
        with pytest.raises(DamagedQueueError, match="the record at offset 3 or right behind it"):
            read(store, 3, 8)
    assert [e.queue_id for e in store.damaged] == [0]
    assert read(store, 4, 8).records == 6
    await store.close()


async def test_a_record_in_anothers_place_is_not_served(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = await reopened(tmp_path, clock, damaged=None)
    path = segment_files(tmp_path)[0]
    content = path.read_bytes()
    damage(path, HEADER_SIZE + 2 * SIZE, content[HEADER_SIZE : HEADER_SIZE + SIZE])
    assert read(store, 0, 10).next_offset == 2
    await store.close()


async def test_what_was_verified_is_not_checked_again(
    tmp_path: Path, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await reopened(tmp_path, clock, damaged=None)
    checked = 0

    def counted(data: bytes, position: int, end: int) -> int:
        nonlocal checked
        checked += 1
        return check_record(data, position, end)

    monkeypatch.setattr(verification, "check_record", counted)
    for offset, count, so_far in ((0, 4, 4), (0, 4, 4), (4, 3, 7), (1, 5, 7), (7, 3, 10)):
        assert read(store, offset, count).records == count
        assert checked == so_far
    read(store, 0, 10)
    assert checked == 10
    await store.close()


async def test_a_filtered_read_is_checked_by_what_it_found(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = await reopened(tmp_path, clock, damaged=5)
    queue_log = store.queue_log("Orders", 0)

    def matching(*bodies: bytes) -> Slice:
        part = queue_log.read(
            0, 10, 1 << 20, None, lambda data: any(body in data for body in bodies)
        )
        return store.verified(queue_log, 0, part)

    found = matching(b"0002", b"0007")
    assert [m.body for m in decode_records(found.data)] == [b"0002", b"0007"]
    assert found.next_offset == 10
    cut = store.verified(
        queue_log, 0, queue_log.read(0, 10, 1 << 20, None, lambda data: b"0004" not in data)
    )
    assert (cut.records, cut.next_offset) == (4, 4)
    await store.close()


async def test_what_recovery_checked_and_this_run_appended_is_not_checked(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store = open_store(tmp_path / "data", clock)
    put(store, b"x")
    await store.checkpoint()
    put(store, b"y")
    abandon(store)
    store = open_store(tmp_path / "data", clock)
    assert store.queue_log("Orders", 0).unverified_end == 1
    put(store, b"z")
    assert store.queue_log("Orders", 0).unverified_end == 1
    await store.close()
