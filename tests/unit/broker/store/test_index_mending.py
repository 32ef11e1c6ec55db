"""An index that does not fit its log is made again while the broker runs."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec
import pytest
from support.store.repairs import BODIES, served
from support.store.stores import SMALL, TOPIC, damage, open_store, put, segment_files

from pocketmq.broker.store.disk.errors import DamagedQueueError, FormatError, IndexMendingError
from pocketmq.broker.store.log.segment import ENTRY_SIZE, HEADER_SIZE
from pocketmq.broker.store.store import MessageStore
from pocketmq.testing.clock import VirtualClock

LARGE = msgspec.structs.replace(SMALL, segment_size=1 << 20)


async def filled(directory: Path, clock: VirtualClock) -> Path:
    """A directory with one segment, stopped cleanly."""
    store = open_store(directory, clock, LARGE)
    put(store, *BODIES)
    await store.close()
    return directory


def read_at(store: MessageStore, offset: int) -> int:
    """Reads as a pull does; returns the number of records."""
    queue_log = store.find_log(TOPIC, 0)
    assert queue_log is not None
    try:
        part = queue_log.read(offset, 1, 1 << 20)
    except FormatError:
        store.index_mending.check(queue_log, offset)
        raise
    return store.verified(queue_log, offset, part).records


@pytest.mark.parametrize(
    ("entry", "octet", "value"),
    [
        (0, 7, None), (1, 7, None), (1, 3, None),  # positions, near and far
        (0, 11, None), (1, 8, b"\x7f"),  # sizes
        (0, 0, bytes(2 * ENTRY_SIZE)),
    ],
)  # fmt: skip
async def test_a_wrong_index_is_made_again(
    tmp_path: Path,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    entry: int,
    octet: int,
    value: bytes | None,
) -> None:
    directory = await filled(tmp_path / "data", clock)
    index = segment_files(directory, "idx")[0]
    before = index.read_bytes()
    damage(index, HEADER_SIZE + entry * ENTRY_SIZE + octet, value)
    store = open_store(directory, clock, LARGE)
    with pytest.raises(IndexMendingError, match="try again in a moment"):
        read_at(store, entry)
    with caplog.at_level(logging.WARNING, "pocketmq.store"):
        await store.index_mending.wait()
    assert "did not fit the log and were made again" in caplog.text
    assert index.read_bytes() == before
    assert [m.body for m in served(store)] == BODIES
    assert len(store.damaged) == 0
    await store.close()


async def test_a_damaged_log_is_not_taken_for_a_wrong_index(
    tmp_path: Path, clock: VirtualClock
) -> None:
    directory = await filled(tmp_path / "data", clock)
    for position in (100, 600):
        damage(segment_files(directory)[0], HEADER_SIZE + position)
    before = segment_files(directory, "idx")[0].read_bytes()
    store = open_store(directory, clock, LARGE)
    with pytest.raises(DamagedQueueError):
        read_at(store, 0)
    with pytest.raises(IndexMendingError):  # nobody can tell before the segment was read
        read_at(store, 1)
    await store.index_mending.wait()
    with pytest.raises(DamagedQueueError):
        read_at(store, 1)
    assert segment_files(directory, "idx")[0].read_bytes() == before
    await store.close()
