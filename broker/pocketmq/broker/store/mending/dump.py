"""Reads records and index entries for people, from a directory (a running broker's too) or a file.

Nothing is locked, changed or kept in memory but one piece of a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.scan import scan
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    physical_offset,
    read_segment,
)
from pocketmq.broker.store.mending.check import queue_directories
from pocketmq.broker.store.mending.survey import INDEX_BLOCK_ENTRIES, sound_records

_NO_END = 1 << 62


class Gap(NamedTuple):
    """A stretch of a log that is no sound record.

    Attributes:
        path: the log file.
        position, size: which bytes.
        is_end: whether they are the last of the file, as when a broker is about to write there.
    """

    path: Path
    position: int
    size: int
    is_end: bool

    def __str__(self) -> str:
        return (
            f"{self.path}: {self.size} bytes from position {self.position} on are no sound record"
        )


class StoredRecord(NamedTuple):
    """A sound record with its file and position."""

    path: Path
    position: int
    offset: int
    timestamp: int
    data: bytes


class Entry(NamedTuple):
    """An index entry with the offset of its record."""

    offset: int
    physical_offset: int
    position: int
    size: int
    tags_code: int


def dump_directory(
    files: Files,
    directory: Path,
    topic: str | None = None,
    queue_id: int | None = None,
    start: int = 0,
    end: int | None = None,
) -> Iterator[StoredRecord | Gap]:
    """Yields the records of a data directory, or of one topic or queue of it.

    Args:
        files: opened for reading only.
        directory: the data directory.
        topic, queue_id: of what; None for all.
        start, end: queue offsets, from and up to, without the latter.

    Raises:
        FormatError: a header is damaged.
    """
    for (name, number), path in queue_directories(directory).items():
        if topic in (None, name) and queue_id in (None, number):
            segments = [_open(files, log) for log in sorted(path.glob("*.log"))]
            for index, segment in enumerate(segments):
                follower = segments[index + 1].base_offset if segment is not segments[-1] else None
                if follower is None or follower > start:
                    yield from _dump(files, segment, start, end)
            files.close()


def dump_log(
    files: Files, path: Path, start: int = 0, end: int | None = None
) -> Iterator[StoredRecord | Gap]:
    """Yields the records of one `.log` file, wherever it is."""
    return _dump(files, _open(files, path, is_anywhere=True), start, end)


def dump_index(files: Files, path: Path, start: int = 0, end: int | None = None) -> Iterator[Entry]:
    """Yields the entries of one `.idx` file.

    Raises:
        FormatError: its header is damaged.
    """
    segment = read_segment(path, files.read(path, 0, HEADER_SIZE), INDEX_MAGIC)
    offset = max(start, segment.base_offset)
    last = _NO_END if end is None else end
    while offset < last:
        at = HEADER_SIZE + (offset - segment.base_offset) * ENTRY_SIZE
        data = files.read(path, at, min(INDEX_BLOCK_ENTRIES, last - offset) * ENTRY_SIZE)
        whole = len(data) - len(data) % ENTRY_SIZE
        if not whole:
            return
        for physical, size, code in ENTRY.iter_unpack(data[:whole]):
            yield Entry(offset, physical, segment.position_of(physical), size, code)
            offset += 1


def _open(files: Files, path: Path, *, is_anywhere: bool = False) -> Segment:
    header = files.read(path, 0, HEADER_SIZE)
    if not is_anywhere:
        return read_segment(path, header)
    # A file that was moved aside may have got another name: its header says what it is.
    position = int.from_bytes(header[24:32], "big")
    segment = read_segment(path.with_name(f"{position:020d}.log"), header)
    return segment._replace(stem=str(path.with_suffix("")))


def _dump(
    files: Files, segment: Segment, start: int, end: int | None
) -> Iterator[StoredRecord | Gap]:
    path = segment.log_path
    begin = _begin_of(files, segment, start)
    position = segment.base_position if begin is None else begin[0]
    for record in sound_records(files, segment, begin):
        if record.position > position:
            yield Gap(path, position, record.position - position, is_end=False)
        position = record.position + record.size
        if end is not None and record.offset >= end:
            return
        if record.offset >= start:
            at = record.position - segment.base_position + HEADER_SIZE
            data = files.read(path, at, record.size)
            yield StoredRecord(path, record.position, record.offset, record.timestamp, data)
    rest = files.size(path) - HEADER_SIZE + segment.base_position - position
    if rest > 0:
        yield Gap(path, position, rest, is_end=True)


def _begin_of(files: Files, segment: Segment, start: int) -> tuple[int, int] | None:
    """Returns (position, offset) of the record at an offset, if the index knows it."""
    number = start - segment.base_offset
    if number <= 0 or not files.exists(segment.index_path):
        return None
    at = HEADER_SIZE + number * ENTRY_SIZE
    entry = files.read(segment.index_path, at, ENTRY_SIZE)
    if len(entry) < ENTRY_SIZE:
        return None
    physical, size, _ = ENTRY.unpack(entry)
    position = segment.position_of(physical)
    if physical != physical_offset(segment.log_number, position):
        return None
    found = next(scan(files, segment, position, start), None)
    is_there = found is not None and found[:3] == (position, size, start)
    return (position, start) if is_there else None
