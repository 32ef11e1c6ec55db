"""Reads the records of one queue by offset, by physical offset and by store time."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import FormatError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.lost_records import is_lost
from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE, HEADER_SIZE, Segment
from pocketmq.protocol.messages.records import (
    STORE_TIMESTAMP_AT_V4,
    check_record,
    read_store_timestamp,
)

SCAN_ENTRIES_MAX = 16_000
"""Index entries that one filtered read looks at (RocketMQ's maxFilterMessageSize by entries)."""

_RECORD_TIME_SIZE = STORE_TIMESTAMP_AT_V4 + 20

SCAN_RECORDS_MAX = 2_000
"""Records that one read with a condition on their content looks at, so that others get a turn."""

SCAN_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of them."""

RECORD_SIZE_MIN = 90
"""No record has fewer bytes."""

SCAN_WORK_MAX = 100_000
"""Work of one filtered read, in units of about 0.1 µs, but always one record."""

ENTRY_WORK = 7
"""The work of looking at an index entry."""

RUN_WORK = 25
"""The work of reading records that do not follow the ones before."""


class ReadWork:
    """What a condition on the content of records has done in one read.

    Args:
        text: of the condition.

    Attributes:
        text: the same.
        done: in the unit of `SCAN_WORK_MAX`.
    """

    __slots__ = ("done", "text")

    def __init__(self, text: str = "") -> None:
        self.text, self.done = text, 0


class Slice(NamedTuple):
    """Records back to back, as a read returns them, and the offset at which to go on."""

    data: bytes
    records: int
    next_offset: int


class ReadableLog:
    """The committed records of one queue, in segments; the newest index entries are in memory.

    Readers see the records before `end_offset`. More may be written: a broker that replicates shows
    what all in-sync members have.

    Args:
        files: the disk.
        topic, queue_id: what the log is of.
        segments: those that exist, in order.
        end_position, end_offset: behind the last record.
        last_timestamp: store time of the last record; store times never go back within a log.

    Attributes:
        end_position, end_offset: behind the last record that readers see.
        written_position, written_offset: behind the last record in the files.
    """

    __slots__ = (
        "_active",
        "_files",
        "_index_tail",
        "_log_path",
        "end_offset",
        "end_position",
        "last_timestamp",
        "queue_id",
        "segments",
        "topic",
        "written_offset",
        "written_position",
    )

    def __init__(
        self,
        files: Files,
        topic: str,
        queue_id: int,
        segments: list[Segment] | None = None,
        end_position: int = 0,
        end_offset: int = 0,
        last_timestamp: int = 0,
    ) -> None:
        self._files = files
        self.topic, self.queue_id = topic, queue_id
        self.segments = segments or []
        self.end_position, self.end_offset = end_position, end_offset
        self.written_position, self.written_offset = end_position, end_offset
        self.last_timestamp = last_timestamp
        self._index_tail = bytearray()
        self._active: Segment | None = None
        if self.segments:
            self._activate(self.segments[-1])

    def _activate(self, segment: Segment) -> None:
        """Makes a segment the newest one, where records are written."""
        self._active = segment
        self._log_path = segment.log_file

    # -- what there is ------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """The offset of the oldest record."""
        return self.segments[0].base_offset if self.segments else self.end_offset

    @property
    def max_offset(self) -> int:
        """The offset behind the last record that readers see."""
        return self.end_offset

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.written_position - self.segments[0].base_position if self.segments else 0

    @property
    def ends_empty(self) -> bool:
        """Whether the newest segment holds no record yet."""
        return bool(self.segments) and self.segments[-1].base_position == self.written_position

    def segment_end(self, index: int) -> tuple[int, int]:
        """Returns (position, queue offset) of the end of the segment at an index."""
        if index + 1 < len(self.segments):
            follower = self.segments[index + 1]
            return follower.base_position, follower.base_offset
        return self.written_position, self.written_offset

    def segment_last_timestamp(self, index: int) -> int:
        """Returns the store time of a segment's last record; of its creation if it has none."""
        _, end_offset = self.segment_end(index)
        if end_offset >= self.end_offset and self.last_timestamp:
            return self.last_timestamp  # known without a look at the disk
        if end_offset == self.segments[index].base_offset:
            return self.segments[index].created_ms
        return self.timestamp_at(end_offset - 1)

    # -- records ------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        count_max: int,
        size_max: int,
        tags_codes: Collection[int] | None = None,
        matches: Callable[[bytes], bool] | None = None,
        work: ReadWork | None = None,
    ) -> Slice:
        """Reads records from an offset on, within one segment.

        Args:
            offset: within min_offset and max_offset.
            count_max: so many records at the most.
            size_max: so many bytes at the most, but always one record.
            tags_codes: only records with one of these; None for all.
            matches: only records that it says yes to; each is read for it.
            work: what `matches` has done; the read ends when that is too much.
        """
        segment, end_offset = self._segment_of(offset)
        if matches is not None:
            scan = max(count_max, SCAN_RECORDS_MAX)
        else:
            scan = count_max
            if tags_codes is not None:
                scan = min(max(count_max, SCAN_ENTRIES_MAX), SCAN_WORK_MAX // ENTRY_WORK)
        entries = self._read_entries(segment, offset, min(scan, end_offset - offset))
        if tags_codes is None and matches is None:
            return self._read_run(segment, offset, entries, size_max)
        return self._read_matching(
            segment, offset, entries, count_max, size_max, tags_codes, matches, work
        )

    def _read_run(self, segment: Segment, offset: int, entries: bytes, size_max: int) -> Slice:
        """Reads neighbouring records: one slice of the file."""
        start = segment.position_of(ENTRY.unpack_from(entries, 0)[0])
        count = self._count_within(segment, entries, start + size_max)
        end = self._end_of(segment, entries, count - 1)
        return Slice(self._read_log(segment, start, end), count, offset + count)

    def _count_within(self, segment: Segment, entries: bytes, end_max: int) -> int:
        """Counts the entries whose records end at or before a position; at least one."""
        count = len(entries) // ENTRY_SIZE
        if self._end_of(segment, entries, count - 1) <= end_max:
            return count
        # Entries are in order of position, so the last one that fits is found by bisection.
        low, high = 1, count
        while low < high:
            middle = (low + high + 1) // 2
            if self._end_of(segment, entries, middle - 1) <= end_max:
                low = middle
            else:
                high = middle - 1
        return low

    def _read_log(self, segment: Segment, start: int, end: int) -> bytes:
        """Reads the bytes of a segment between two positions."""
        data = b""
        if segment.base_position <= start < end:
            data = self._files.read(
                segment.log_file, start - segment.base_position + HEADER_SIZE, end - start
            )
        if len(data) != end - start:
            raise FormatError(
                segment.index_path,
                f"it names records at positions {start} to {end} that the log does not hold: stop "
                f"the broker and check its directory; the index is made again if it is deleted",
            )
        return data

    def _read_matching(
        self,
        segment: Segment,
        offset: int,
        entries: bytes,
        count_max: int,
        size_max: int,
        tags_codes: Collection[int] | None,
        matches: Callable[[bytes], bool] | None,
        work: ReadWork | None,
    ) -> Slice:
        runs: list[list[int]] = []
        count = size = examined = 0
        next_offset = offset
        for physical, record_size, code in ENTRY.iter_unpack(entries):
            position = segment.position_of(physical)
            end = position + record_size
            if matches is not None:
                examined += record_size
                is_enough = examined > SCAN_SIZE_MAX or (
                    work is not None and work.done > SCAN_WORK_MAX
                )
                if is_enough and next_offset > offset:
                    break
            if (tags_codes is None or code in tags_codes) and (
                matches is None or matches(self._read_log(segment, position, end))
            ):
                if count and (count >= count_max or size + record_size > size_max):
                    break
                if runs and runs[-1][1] == position:
                    runs[-1][1] = end
                elif len(runs) * RUN_WORK > SCAN_WORK_MAX:
                    break
                else:
                    runs.append([position, end])
                count += 1
                size += record_size
            next_offset += 1
        data = b"".join([self._read_log(segment, start, end) for start, end in runs])
        return Slice(data, count, next_offset)

    @staticmethod
    def _end_of(segment: Segment, entries: bytes, index: int) -> int:
        physical, size, _ = ENTRY.unpack_from(entries, index * ENTRY_SIZE)
        end: int = segment.position_of(physical) + size
        return end

    def entries(self, offset: int, count: int) -> bytes:
        """Reads the index entries of `count` records, all of one segment."""
        segment, _ = self._segment_of(offset)
        return self._read_entries(segment, offset, count)

    def read_record(self, physical: int) -> bytes:
        """Reads the record at a physical offset of this log; empty if none begins there."""
        if not self.segments:
            return b""
        position = self.segments[0].position_of(physical)
        if position >= self.end_position:
            return b""
        index = bisect.bisect_right(self.segments, position, key=lambda s: s.base_position) - 1
        segment = self.segments[index]
        at = position - segment.base_position + HEADER_SIZE
        size = int.from_bytes(self._files.read(segment.log_file, at, 4), "big")
        if not 0 < size <= self.end_position - position:
            return b""
        data = self._files.read(segment.log_file, at, size)
        is_there = check_record(data, 0, len(data)) == size and not is_lost(data, 0)
        return data if is_there else b""

    def timestamp_at(self, offset: int) -> int:
        """Reads the store time, in milliseconds, of the record at an offset."""
        segment, _ = self._segment_of(offset)
        return self._timestamp_in(segment, offset)

    def written_timestamp(self, offset: int) -> int:
        """Reads the store time of the record at an offset, also of one held back from readers."""
        index = bisect.bisect_right(self.segments, offset, key=lambda s: s.base_offset) - 1
        return self._timestamp_in(self.segments[index], offset)

    def _timestamp_in(self, segment: Segment, offset: int) -> int:
        physical, size, _ = ENTRY.unpack(self._read_entries(segment, offset, 1))
        start = segment.position_of(physical)
        head = self._read_log(segment, start, start + min(size, _RECORD_TIME_SIZE))
        return read_store_timestamp(head)

    def offset_at_time(self, timestamp: int, *, upper: bool = False) -> int:
        """Finds the offset at a store time (behaviour.md §11, code 29).

        Args:
            timestamp: milliseconds since the epoch.
            upper: False for the first record not before the time (the end if there is none), True
                for the last one not after it (the oldest if there is none).
        """
        low, high = self.min_offset, self.end_offset
        bound = timestamp + 1 if upper else timestamp
        while low < high:
            middle = (low + high) // 2
            if self.timestamp_at(middle) < bound:
                low = middle + 1
            else:
                high = middle
        if not upper:
            return low
        return max(low - 1, self.min_offset)

    def read_entries(self, offset: int, count: int) -> bytes:
        """Reads up to `count` index entries from an offset on, within one segment."""
        segment, end_offset = self._segment_of(offset)
        return self._read_entries(segment, offset, min(count, end_offset - offset))

    def read_with_entries(self, offset: int, count_max: int, size_max: int) -> tuple[bytes, bytes]:
        """Reads records from an offset on, within one segment, and their index entries.

        At most so many records and bytes, but always one record.
        """
        segment, end_offset = self._segment_of(offset)
        entries = self._read_entries(segment, offset, min(count_max, end_offset - offset))
        start = segment.position_of(ENTRY.unpack_from(entries, 0)[0])
        count = self._count_within(segment, entries, start + size_max)
        data = self._read_log(segment, start, self._end_of(segment, entries, count - 1))
        return data, entries[: count * ENTRY_SIZE]

    def position_at(self, offset: int) -> int:
        """Returns the position of the record at an offset, also of the next one to come."""
        if offset >= self.end_offset:
            return self.end_position
        segment, _ = self._segment_of(offset)
        return segment.position_of(ENTRY.unpack(self._read_entries(segment, offset, 1))[0])

    def written_record(self, offset: int) -> tuple[int, bytes]:
        """Reads the record at an offset, also one held back from readers, and its position.

        Raises:
            FormatError: the index does not fit the log.
        """
        index = bisect.bisect_right(self.segments, offset, key=lambda s: s.base_offset) - 1
        segment = self.segments[index]
        physical, size, _ = ENTRY.unpack(self._read_entries(segment, offset, 1))
        position = segment.position_of(physical)
        return position, self._read_log(segment, position, position + size)

    def written_offset_at(self, position: int) -> int:
        """Returns the offset of the record that begins at a position, also of one held back.

        Raises:
            FormatError: no record begins there.
        """
        if position >= self.written_position:
            return self.written_offset
        index = bisect.bisect_right(self.segments, position, key=lambda s: s.base_position) - 1
        segment, (_, high) = self.segments[max(index, 0)], self.segment_end(max(index, 0))
        low = segment.base_offset
        while low < high:
            middle = (low + high) // 2
            physical = ENTRY.unpack(self._read_entries(segment, middle, 1))[0]
            found = segment.position_of(physical)
            if found == position:
                return middle
            if found < position:
                low = middle + 1
            else:
                high = middle
        raise FormatError(segment.index_path, f"no record begins at position {position}")

    def read_written(self, position: int, offset: int, size_max: int) -> tuple[bytes, bytes]:
        """Reads records from one on, within one segment, also those held back from readers.

        Args:
            position, offset: of the first record.
            size_max: so many bytes at the most, but always one record.

        Returns:
            the records back to back, and their index entries; both empty at the end of the log.
        """
        if position >= self.written_position:
            return b"", b""
        index = bisect.bisect_right(self.segments, position, key=lambda s: s.base_position) - 1
        segment, (_, end_offset) = self.segments[index], self.segment_end(index)
        count = min(end_offset - offset, max(1, size_max // RECORD_SIZE_MIN), SCAN_ENTRIES_MAX)
        entries = self._read_entries(segment, offset, count)
        count = self._count_within(segment, entries, position + size_max)
        data = self._read_log(segment, position, self._end_of(segment, entries, count - 1))
        return data, entries[: count * ENTRY_SIZE]

    def _segment_of(self, offset: int) -> tuple[Segment, int]:
        """Returns the segment that holds an offset, and the offset where the segment ends."""
        active = self._active
        assert active is not None
        assert self.min_offset <= offset < self.end_offset, (offset, self.end_offset)
        if offset >= active.base_offset:
            return active, self.end_offset
        index = bisect.bisect_right(self.segments, offset, key=lambda s: s.base_offset)
        return self.segments[index - 1], min(self.segments[index].base_offset, self.end_offset)

    def _read_entries(self, segment: Segment, offset: int, count: int) -> bytes:
        tail = b""
        if segment is self._active and self._index_tail:
            tail_start = self.written_offset - len(self._index_tail) // ENTRY_SIZE
            at = max(offset - tail_start, 0)
            in_file = max(min(count, tail_start - offset), 0)
            tail = bytes(self._index_tail[at * ENTRY_SIZE : (at + count - in_file) * ENTRY_SIZE])
            if not in_file:
                return tail
            count = in_file
        at = HEADER_SIZE + (offset - segment.base_offset) * ENTRY_SIZE
        entries = self._files.read(segment.index_file, at, count * ENTRY_SIZE)
        if len(entries) != count * ENTRY_SIZE:
            raise FormatError(
                segment.index_path,
                "it is shorter than its log: stop the broker and delete it, it is made again",
            )
        return entries + tail
