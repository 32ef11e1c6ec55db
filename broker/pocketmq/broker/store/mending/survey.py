"""Reads the files of a queue record by record and beyond damage, and changes nothing.

The check tells of it, the repair acts on it, and a dump shows it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import FormatError, VersionError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.keys.key_file import KeyFileError, read_key_file
from pocketmq.broker.store.log.scan import READ_SIZE, RECORD_SIZE_MAX, ScannedRecord, scan
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    Segment,
    log_number_of,
    physical_offset,
    read_segment,
)
from pocketmq.protocol.messages.records import (
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    check_record,
    read_store_timestamp,
)

_OFFSETS = struct.Struct(">qq")
_INT = struct.Struct(">I")
_MAGICS = (_INT.pack(MAGIC_V1), _INT.pack(MAGIC_V2))
_MAGIC_AT = 4

INDEX_BLOCK_ENTRIES = 4096
"""Index entries that are in memory at a time."""

PROGRESS_RECORDS = 1024
"""Records between two reports of progress."""

OnProgress = Callable[[int], object]
"""Told of so many bytes of logs that were read since it was last told."""


class SoundRange(NamedTuple):
    """Sound records back to back.

    Attributes:
        position, offset: of the first one.
        end_position, end_offset: behind the last one.
        timestamp: store time of the last one.
    """

    position: int
    offset: int
    end_position: int
    end_offset: int
    timestamp: int


@dataclass
class SegmentSurvey:
    """What was found in the files of one segment.

    Attributes:
        log_path: of its records.
        segment: what the header says, or what it should say; None if nobody can tell.
        header_error: what is wrong with the header.
        remedy: what helps where no repair does.
        size: bytes of records in the file, sound or not.
        runs: the sound records, in order.
        lost: offsets of records that an earlier repair had to put in the place of lost ones.
        index_error, keys_error: what is wrong with those files.
    """

    log_path: Path
    segment: Segment | None = None
    header_error: str = ""
    remedy: str = ""
    size: int = 0
    runs: list[SoundRange] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    index_error: str = ""
    keys_error: str = ""

    @property
    def records(self) -> int:
        """The number of sound records."""
        return sum(run.end_offset - run.offset for run in self.runs)

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Lists (position, bytes) of the stretches that are no sound record."""
        if self.segment is None:
            return []
        out = []
        position = self.segment.base_position
        for run in self.runs:
            if run.position > position:
                out.append((position, run.position - position))
            position = run.end_position
        rest = self.segment.base_position + self.size - position
        return [*out, (position, rest)] if rest else out


def survey_queue(
    files: Files, directory: Path, on_progress: OnProgress = lambda _: None
) -> list[SegmentSurvey]:
    """Reads every segment of a queue, in the order of their names."""
    out = []
    for path in sorted(directory.glob("*.log")):
        survey = SegmentSurvey(path)
        try:
            _look_at(files, path, survey, on_progress)
        except OSError as e:
            survey.header_error = f"it cannot be read: {e.strerror or e}"
            survey.remedy = "make it readable for this user, and look whether the disk is sound"
        out.append(survey)
    return out


def _look_at(files: Files, path: Path, survey: SegmentSurvey, on_progress: OnProgress) -> None:
    try:
        header = files.read(path, 0, HEADER_SIZE)
        survey.size = max(files.size(path) - HEADER_SIZE, 0)
        survey.segment = read_segment(path, header)
    except FormatError as e:
        survey.header_error = e.reason
        if isinstance(e, VersionError):
            survey.remedy = "run the version of PocketMQ that wrote it"
        else:
            survey.segment = _by_its_records(files, path)
    if survey.segment is not None:
        _read_records(files, survey, survey.segment, on_progress)
        survey.keys_error = _keys_error(files, survey.segment)


def _by_its_records(files: Files, path: Path) -> Segment | None:
    """Guesses a segment's header by its file name and first record, if the header is damaged."""
    head = files.read(path, HEADER_SIZE, RECORD_SIZE_MIN)
    if not path.stem.isdecimal() or len(head) < RECORD_SIZE_MIN:
        return None
    size = min(int.from_bytes(head[:4], "big"), RECORD_SIZE_MAX)
    record = files.read(path, HEADER_SIZE, size)
    if not check_record(record, 0, len(record)):
        return None
    offset, physical = _OFFSETS.unpack_from(record, QUEUE_OFFSET_AT)
    stored_ms = read_store_timestamp(record)
    segment = Segment(
        str(path.with_suffix("")), log_number_of(physical), int(path.stem), offset, stored_ms
    )
    is_there = physical == physical_offset(segment.log_number, segment.base_position)
    return segment if is_there else None


def _read_records(
    files: Files, survey: SegmentSurvey, segment: Segment, on_progress: OnProgress
) -> None:
    index = _IndexCheck(files, segment)
    told, end_offset = segment.base_position, segment.base_offset
    for count, record in enumerate(sound_records(files, segment), 1):
        index.compare(record)
        if record.is_lost:
            survey.lost.append(record.offset)
        start, end_offset = record[0:3:2], record.offset + 1
        end = record.position + record.size
        if survey.runs and survey.runs[-1][2:4] == start:
            start = survey.runs.pop()[:2]
        survey.runs.append(SoundRange(*start, end, end_offset, record.timestamp))
        if not count % PROGRESS_RECORDS:
            on_progress(end - told)
            told = end
    on_progress(segment.base_position + survey.size - told)
    survey.index_error = index.error(end_offset)


def sound_records(
    files: Files, segment: Segment, start: tuple[int, int] | None = None
) -> Iterator[ScannedRecord]:
    """Yields a segment's sound records from a (position, offset) on, also those behind damage."""
    start = start or (segment.base_position, segment.base_offset)
    while start is not None:
        position, offset = start
        for record in scan(files, segment, position, offset):
            yield record
            position, offset = record.position + record.size, record.offset + 1
        start = _next_record(files, segment, position, offset)


def _next_record(
    files: Files, segment: Segment, position: int, offset: int
) -> tuple[int, int] | None:
    """Finds (position, offset) of the first sound record behind a position without one.

    Only a record that names the place where it stands is taken.
    """
    base = segment.base_position - HEADER_SIZE
    size = files.size(segment.log_path)
    at = position + 1 - base
    while at < size:
        window = files.read(segment.log_path, at, READ_SIZE + RECORD_SIZE_MIN)
        found = _magic_in(window, 0)
        while 0 <= found < READ_SIZE:
            start = at + found + base
            head = window[found : found + RECORD_SIZE_MIN]
            if len(head) == RECORD_SIZE_MIN:
                queue_offset, physical = _OFFSETS.unpack_from(head, QUEUE_OFFSET_AT)
                if (
                    physical == physical_offset(segment.log_number, start)
                    and queue_offset >= offset
                    and next(scan(files, segment, start, queue_offset), None)
                ):
                    return start, queue_offset
            found = _magic_in(window, found + 1)
        at += READ_SIZE
    return None


def _magic_in(window: bytes, start: int) -> int:
    """Finds where a record may begin, by its magic; -1 if nowhere."""
    found = [window.find(magic, start + _MAGIC_AT) for magic in _MAGICS]
    return min((at - _MAGIC_AT for at in found if at >= 0), default=-1)


class _IndexCheck:
    """Compares a segment's index with its records, one after the other."""

    def __init__(self, files: Files, segment: Segment) -> None:
        self._files, self._segment = files, segment
        self._path = segment.index_path
        self._is_there = files.exists(self._path)
        self._block, self._block_start = b"", -1
        self._wrong, self._first_wrong = 0, 0

    def compare(self, record: ScannedRecord) -> None:
        """Compares the next record with its entry."""
        if not self._is_there:
            return
        number = record.offset - self._segment.base_offset
        start = number - number % INDEX_BLOCK_ENTRIES
        if start != self._block_start:
            at = HEADER_SIZE + start * ENTRY_SIZE
            self._block = self._files.read(self._path, at, INDEX_BLOCK_ENTRIES * ENTRY_SIZE)
            self._block_start = start
        physical = physical_offset(self._segment.log_number, record.position)
        at = (number - start) * ENTRY_SIZE
        if self._block[at : at + ENTRY_SIZE] != ENTRY.pack(physical, record.size, record.tags_code):
            if not self._wrong:
                self._first_wrong = record.offset
            self._wrong += 1

    def error(self, end_offset: int) -> str:
        """Says what is wrong with the index of a segment that ends at an offset; empty if nothing
        is.
        """
        if not self._is_there:
            return "it is missing"
        problems = []
        if self._files.read(self._path, 0, HEADER_SIZE) != self._segment.header(INDEX_MAGIC):
            problems.append("its header is not that of its log")
        if self._wrong:
            problems.append(
                f"{self._wrong} entries are wrong or missing, the first is that of offset "
                f"{self._first_wrong}"
            )
        wanted = HEADER_SIZE + (end_offset - self._segment.base_offset) * ENTRY_SIZE
        spare = self._files.size(self._path) - wanted
        if spare > 0:
            problems.append(f"{spare} bytes more than the log has records")
        return ", ".join(problems)


def _keys_error(files: Files, segment: Segment) -> str:
    """Says what is wrong with a key file; empty if nothing is that counts."""
    try:
        key_file = read_key_file(files, segment)
        for run in key_file.runs:
            for block, checksum in enumerate(key_file.fences(run)[1]):
                key_file.block(run, block, checksum)
    except KeyFileError as e:
        return e.reason
    return ""
