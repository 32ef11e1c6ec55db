"""Verifies a whole data directory: run after every store test, and by `pocketmq store check`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.errors import FormatError
from pocketmq.broker.store.files import Files
from pocketmq.broker.store.key_file import KeyFileError, read_key_file
from pocketmq.broker.store.recovery import scan
from pocketmq.broker.store.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    physical_offset,
    read_segment,
)

INDEX_SIZE_MAX = 1 << 30
"""More than any segment's index has: its records would fill fifty gigabytes."""


class CheckReport(NamedTuple):
    """What a check saw: how much, and everything that is wrong, in words."""

    queues: int
    records: int
    size: int
    problems: list[str]


def check_directory(directory: Path) -> CheckReport:
    """Reads every record and index entry of a store that no broker has open.

    Each record must be sound, carry the offset and position at which it stands, and have an index
    entry that says the same; segments must follow each other without a gap.
    """
    files = Files(16)
    queues = records = size = 0
    problems: list[str] = []
    try:
        for queue in sorted((directory / "queues").glob("*/*")):
            queues += 1
            count, queue_size = _check_queue(files, queue, problems)
            records += count
            size += queue_size
    finally:
        files.close()
    return CheckReport(queues, records, size, problems)


def _check_queue(files: Files, queue: Path, problems: list[str]) -> tuple[int, int]:
    count = size = 0
    end: tuple[int, int] | None = None
    number: int | None = None
    for path in sorted(queue.glob("*.log")):
        try:
            segment = read_segment(path, files.read(path, 0, HEADER_SIZE))
        except FormatError as e:
            problems.append(str(e))
            return count, size
        start = (segment.base_position, segment.base_offset)
        if end is not None and end != start:
            problems.append(f"{path}: begins at {start}, the segment before ends at {end}")
        if number not in (None, segment.log_number):
            problems.append(f"{path}: belongs to queue log {segment.log_number}, not to {number}")
        number = segment.log_number
        position, offset = _check_segment(files, segment, problems)
        count += offset - segment.base_offset
        size += position - segment.base_position
        end = (position, offset)
    return count, size


def _check_segment(files: Files, segment: Segment, problems: list[str]) -> tuple[int, int]:
    position, offset = segment.base_position, segment.base_offset
    index = b""
    if not files.exists(segment.index_path):
        problems.append(f"{segment.index_path}: it is missing")
    else:
        index = files.read(segment.index_path, HEADER_SIZE, INDEX_SIZE_MAX)
        if files.read(segment.index_path, 0, HEADER_SIZE) != segment.header(INDEX_MAGIC):
            problems.append(f"{segment.index_path}: its header is not that of its log")
    wrong_entries: list[int] = []
    for record in scan(files, segment, position, offset):
        at = (record.offset - segment.base_offset) * ENTRY_SIZE
        wanted = ENTRY.pack(
            physical_offset(segment.log_number, record.position), record.size, record.tags_code
        )
        if index[at : at + ENTRY_SIZE] != wanted:
            wrong_entries.append(record.offset)
        position, offset = record.position + record.size, record.offset + 1
    if wrong_entries:
        problems.append(
            f"{segment.index_path}: {len(wrong_entries)} entries are wrong or missing, the first "
            f"is that of offset {wrong_entries[0]}"
        )
    rest = files.size(segment.log_path) - HEADER_SIZE - (position - segment.base_position)
    if rest:
        problems.append(
            f"{segment.log_path}: {rest} bytes from position {position} on are no sound record"
        )
    _check_keys(files, segment, problems)
    spare = len(index) - (offset - segment.base_offset) * ENTRY_SIZE
    if spare > 0:
        problems.append(f"{segment.index_path}: {spare} bytes more than the log has records")
    return position, offset


def _check_keys(files: Files, segment: Segment, problems: list[str]) -> None:
    """Compares the key file, as far as it counts, with its checksums."""
    try:
        key_file = read_key_file(files, segment)
        for run in key_file.runs:
            for block, checksum in enumerate(key_file.fences(run)[1]):
                key_file.block(run, block, checksum)
    except KeyFileError as e:
        problems.append(f"{e}; delete the file, it is made again")
