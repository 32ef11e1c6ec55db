"""Checks the index of a segment, and makes it again from the segment's log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.log.leftovers import REMADE_SUFFIX
from pocketmq.broker.store.log.scan import scan
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    physical_offset,
)

READ_AT_ONCE_SIZE = 4096
"""An index up to this size is read by one read: most are short where there are many queues."""

OnLost = Callable[[int], object]
"""Told of the offset of each record that stands for a lost one."""


def index_size(segment: Segment, end: Checkpoint) -> int:
    """The size of a segment's index file with all entries up to a point of the log."""
    return HEADER_SIZE + (end.offset - segment.base_offset) * ENTRY_SIZE


def is_index_sound(files: Files, segment: Segment, end: Checkpoint) -> bool:
    """Whether a segment's index reaches a point of the log, by its header, size and last entry."""
    path, size = segment.index_file, index_size(segment, end)
    try:
        if files.size(path) < size:
            return False
    except FileNotFoundError:
        return False
    if size <= READ_AT_ONCE_SIZE:
        whole = files.read(path, 0, size)
        header, entry = whole[:HEADER_SIZE], whole[-ENTRY_SIZE:]
    else:
        header, entry = (
            files.read(path, 0, HEADER_SIZE),
            files.read(path, size - ENTRY_SIZE, ENTRY_SIZE),
        )
    if header != segment.header(INDEX_MAGIC):
        return False
    if size == HEADER_SIZE:
        return True
    physical, record_size, _ = ENTRY.unpack(entry)
    start: int = end.position - record_size
    return start >= segment.base_position and physical == physical_offset(segment.log_number, start)


def extend_index(
    files: Files, segment: Segment, start: Checkpoint, limit: int | None, on_lost: OnLost
) -> Checkpoint:
    """Makes a segment's index again behind a sound point; returns the end of the sound records.

    The next checkpoint brings the index to the disk.

    Args:
        files, segment: of which the index is.
        start: up to where the index is sound.
        limit: the position of the first record that is not taken; None for all records.
        on_lost: told of records that stand for lost ones.
    """
    entries, end = _entries(files, segment, start, limit, on_lost)
    path, size = segment.index_file, index_size(segment, start)
    if start.offset == segment.base_offset:
        files.create(path, segment.header(INDEX_MAGIC))
    elif files.size(path) > size:
        files.truncate(path, size)
    if entries:
        files.write(path, size, entries)
    return end


def remake_index(
    files: Files,
    segment: Segment,
    limit: int | None = None,
    timestamp: int = 0,
    on_lost: OnLost = lambda _: None,
) -> Checkpoint:
    """Makes a whole index again that a checkpoint covers; returns the end of the sound records.

    The new index takes the old one's place when it is on the disk: after a flush that failed, the
    system would show a sound index of which the disk has only parts, and nobody would make it
    again.

    Args:
        files, segment: of which the index is.
        limit: the position of the first record that is not taken; None for all records.
        timestamp: the last store time if there is no sound record.
        on_lost: told of records that stand for lost ones.
    """
    start = Checkpoint(segment.base_position, segment.base_offset, timestamp)
    entries, end = _entries(files, segment, start, limit, on_lost)
    remade = Path(f"{segment.stem}{REMADE_SUFFIX}")
    files.create(remade, segment.header(INDEX_MAGIC) + entries)
    files.sync(remade)
    files.replace(remade, segment.index_path)
    files.sync_directory(remade.parent)
    return end


def _entries(
    files: Files, segment: Segment, start: Checkpoint, limit: int | None, on_lost: OnLost
) -> tuple[bytes, Checkpoint]:
    """The index entries of a segment's sound records from a point on, and the records' end."""
    entries = bytearray()
    end = start
    for record in scan(files, segment, start.position, start.offset):
        if record.position == limit:
            break
        if record.is_lost:
            on_lost(record.offset)
        entries += ENTRY.pack(
            physical_offset(segment.log_number, record.position), record.size, record.tags_code
        )
        end = Checkpoint(record.position + record.size, record.offset + 1, record.timestamp)
    return bytes(entries), end


def entries_of(files: Files, segment: Segment, end_offset: int) -> bytes | None:
    """Returns what a segment's index must hold up to an offset; None if the log is damaged."""
    entries = bytearray()
    for record in scan(files, segment, segment.base_position, segment.base_offset):
        if record.offset >= end_offset:
            break
        physical = physical_offset(segment.log_number, record.position)
        entries += ENTRY.pack(physical, record.size, record.tags_code)
    is_whole = len(entries) == (end_offset - segment.base_offset) * ENTRY_SIZE
    return bytes(entries) if is_whole else None
