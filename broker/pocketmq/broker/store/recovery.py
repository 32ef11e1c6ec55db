"""Opening a queue log: what the last checkpoint vouches for is taken, the rest is checked.

After a clean stop nothing has to be read. After a crash the records behind the checkpoint are
checked one by one (length, magic, CRC, and that each is the record that belongs there); the log is
cut at the first bad one, and the index is made again from the log, never the other way round.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.errors import FormatError
from pocketmq.broker.store.files import Files
from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.broker.store.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    physical_offset,
    read_segment,
)
from pocketmq.protocol import properties as props
from pocketmq.protocol.records import (
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    body_size_at,
    check_record,
    read_store_timestamp,
)

log = logging.getLogger("pocketmq.store")

_OFFSETS = struct.Struct(">qq")
_INT = struct.Struct(">I")
READ_SIZE = 8 * 1024 * 1024
"""Bytes that a scan reads at once; larger than any record."""


class Checkpoint(NamedTuple):
    """Up to where a log and its index were on the disk: nothing before it has to be checked."""

    position: int = 0
    offset: int = 0
    timestamp: int = 0


class ScannedRecord(NamedTuple):
    """A sound record that a scan found."""

    position: int
    size: int
    offset: int
    tags_code: int
    timestamp: int


class Recovered(NamedTuple):
    """What opening a log found: the log, and how many bytes were cut off its end."""

    queue_log: QueueLog
    cut_size: int


def open_queue_log(
    files: Files,
    directory: Path,
    topic: str,
    queue_id: int,
    number: int,
    segment_size: int,
    checkpoint: Checkpoint,
) -> Recovered:
    """Opens a queue's log, whatever the last run left behind.

    Raises:
        FormatError: a file is of another store or version, or a segment is missing.
    """
    segments, cut_size = _find_segments(files, directory, number)
    if not segments:
        empty = QueueLog(files, directory, topic, queue_id, number, segment_size)
        return Recovered(empty, cut_size)
    end = checkpoint
    first = _segment_at(segments, checkpoint.position)
    if first is None:
        # The checkpoint lies before the oldest segment or behind the newest record on disk.
        first, end = 0, Checkpoint(segments[0].base_position, segments[0].base_offset)
    for index in range(first, len(segments)):
        segment = segments[index]
        if segment.base_position != end.position and index > first:
            raise FormatError(
                segment.log_path,
                f"the records of {topic} queue {queue_id} from position {end.position} on are "
                f"missing before this segment: restore the file that holds them, or move the "
                f"later ones away",
            )
        if segment.base_position > end.position:
            end = Checkpoint(segment.base_position, segment.base_offset, end.timestamp)
        end, cut = _recover_segment(files, segment, end)
        if cut:
            cut_size += cut
            for later in segments[index + 1 :]:
                cut_size += files.size(later.log_path) - HEADER_SIZE
                _remove(files, later)
            del segments[index + 1 :]
            break
    if cut_size:
        log.warning(
            "%s queue %d: %d bytes behind the last sound record were cut off, it goes on at "
            "offset %d",
            topic,
            queue_id,
            cut_size,
            end.offset,
        )
    queue_log = QueueLog(
        files,
        directory,
        topic,
        queue_id,
        number,
        segment_size,
        segments,
        end.position,
        end.offset,
        end.timestamp,
    )
    return Recovered(queue_log, cut_size)


def _find_segments(files: Files, directory: Path, number: int) -> tuple[list[Segment], int]:
    if not directory.is_dir():
        return [], 0
    segments = []
    paths = sorted(directory.glob("*.log"))
    cut_size = 0
    for path in paths:
        header = files.read(path, 0, HEADER_SIZE)
        if len(header) < HEADER_SIZE and path is paths[-1]:
            # The crash came while the segment was begun: it holds nothing yet.
            files.delete(path)
            files.delete(path.with_suffix(".idx"))
            continue
        segment = read_segment(path, header)
        if segment.log_number != number:
            raise FormatError(
                path, f"it belongs to queue log {segment.log_number}, not to {number}"
            )
        segments.append(segment)
    for path in directory.glob("*.idx"):
        if not path.with_suffix(".log").exists():
            files.delete(path)
    return segments, cut_size


def _segment_at(segments: list[Segment], position: int) -> int | None:
    """The last segment that begins at or before a position."""
    found = None
    for index, segment in enumerate(segments):
        if segment.base_position <= position:
            found = index
    return found


def _recover_segment(files: Files, segment: Segment, start: Checkpoint) -> tuple[Checkpoint, int]:
    """Checks one segment from a known good point on; returns its end and the bytes cut off."""
    size = files.size(segment.log_path) - HEADER_SIZE + segment.base_position
    if size < start.position:
        log.warning("%s is shorter than its checkpoint: it is read from its start", segment.stem)
        start = Checkpoint(segment.base_position, segment.base_offset)
    known_entries = start.offset - segment.base_offset
    index_size = files.size(segment.index_path) if files.exists(segment.index_path) else 0
    if index_size < HEADER_SIZE + known_entries * ENTRY_SIZE or not index_size:
        start = Checkpoint(segment.base_position, segment.base_offset)
        known_entries = 0
        files.create(segment.index_path, segment.header(INDEX_MAGIC))
        index_size = HEADER_SIZE
    elif size == start.position and index_size == HEADER_SIZE + known_entries * ENTRY_SIZE:
        return start, 0
    entries = bytearray()
    end = start
    for record in scan(files, segment, start.position, start.offset):
        entries += ENTRY.pack(
            physical_offset(segment.log_number, record.position), record.size, record.tags_code
        )
        end = Checkpoint(record.position + record.size, record.offset + 1, record.timestamp)
    entries_at = HEADER_SIZE + known_entries * ENTRY_SIZE
    files.truncate(segment.index_path, entries_at)
    if entries:
        files.write(segment.index_path, entries_at, entries)
    cut = size - end.position
    if cut:
        files.truncate(segment.log_path, end.position - segment.base_position + HEADER_SIZE)
    return end, cut


def scan(files: Files, segment: Segment, position: int, offset: int) -> Iterator[ScannedRecord]:
    """The sound records of a segment from a record's position on, up to the first bad one."""
    base = segment.base_position - HEADER_SIZE
    window, window_position = b"", position
    while True:
        at = position - window_position
        size = check_record(window, at, len(window))
        if not size and (at or not window):
            # It may only be cut off by the window: look once more with the record at its start.
            window = files.read(segment.log_path, position - base, READ_SIZE)
            window_position, at = position, 0
            size = check_record(window, 0, len(window))
        if not size:
            return
        queue_offset, place = _OFFSETS.unpack_from(window, at + QUEUE_OFFSET_AT)
        if queue_offset != offset or place != physical_offset(segment.log_number, position):
            return
        yield ScannedRecord(
            position,
            size,
            offset,
            record_tags_code(window, at),
            read_store_timestamp(window, at),
        )
        position += size
        offset += 1


def record_tags_code(data: bytes, position: int) -> int:
    """The tags code of the record at a position."""
    (sys_flag,) = _INT.unpack_from(data, position + 36)
    at = position + body_size_at(sys_flag)
    (body_size,) = _INT.unpack_from(data, at)
    at += 4 + body_size
    (magic,) = _INT.unpack_from(data, position + 4)
    if magic == MAGIC_V1:
        at += 1 + data[at]
    else:
        at += 2 + int.from_bytes(data[at : at + 2], "big")
    size = int.from_bytes(data[at : at + 2], "big")
    text = data[at + 2 : at + 2 + size].decode()
    return props.tags_code(props.value_of(text, props.TAGS))


def _remove(files: Files, segment: Segment) -> None:
    files.delete(segment.log_path)
    files.delete(segment.index_path)


assert PHYSICAL_OFFSET_AT == QUEUE_OFFSET_AT + 8
