"""The log of one queue of one topic: records appended in order, read by offset."""

from __future__ import annotations

import bisect
import errno
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.errors import FormatError
from pocketmq.broker.store.files import Files
from pocketmq.broker.store.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    LOG_SIZE_MAX,
    Segment,
    physical_offset,
    segment_stem,
)
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.records import STORE_TIMESTAMP_AT_V4, check_record, read_store_timestamp

log = logging.getLogger("pocketmq.store")

INDEX_TAIL_SIZE_MAX = 64 * 1024
"""Index entries kept in memory before they are written; the log is always written first."""

SCAN_ENTRIES_MAX = 16_000
"""Index entries that one filtered read looks at (RocketMQ's maxFilterMessageSize by entries)."""

_RECORD_TIME_SIZE = STORE_TIMESTAMP_AT_V4 + 20

SCAN_RECORDS_MAX = 2_000
"""Records that one read with a condition on their content looks at, so that others get a turn."""

SCAN_SIZE_MAX = 8 * 1024 * 1024
"""Bytes of them."""

OnStored = Callable[[OperatingError | None], object]
"""Told once what became of an append: None when it is as durable as it was asked to be."""


class Waiter(NamedTuple):
    """Who is to be told of an append, and whether only after a flush to the disk."""

    on_stored: OnStored
    wants_flush: bool


class Slice(NamedTuple):
    """What a read found: records back to back, and where to go on."""

    data: bytes
    records: int
    next_offset: int


class QueueLog:
    """Appends and reads of one queue.

    Appends are gathered in memory and become visible, all or none, with `commit`; `next_offset`
    and `next_position` already count them, so that a record can be encoded with its final place.

    Args:
        files: the disk.
        directory: of this queue's segments.
        topic, queue_id: what the log is of.
        number: its part of the physical offsets.
        segment_size: bytes of records after which a new segment is begun.
        segments: those that exist, in order.
        end_position, end_offset: behind the last record.
        last_timestamp: store time of the last record; store times never go back within a log.

    Attributes:
        synced_position: up to where the records are on the disk.
        synced_base: where the newest segment begins whose directory entry is on the disk.
        indexed_position: up to where the index is on the disk.
    """

    __slots__ = (
        "_active",
        "_entries",
        "_files",
        "_index_tail",
        "_is_torn",
        "_log_path",
        "_records",
        "_segment_size",
        "_waiting",
        "directory",
        "end_offset",
        "end_position",
        "indexed_position",
        "last_timestamp",
        "next_offset",
        "next_position",
        "number",
        "queue_id",
        "segments",
        "synced_base",
        "synced_position",
        "topic",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        topic: str,
        queue_id: int,
        number: int,
        segment_size: int,
        segments: list[Segment] | None = None,
        end_position: int = 0,
        end_offset: int = 0,
        last_timestamp: int = 0,
    ) -> None:
        self._files, self.directory = files, directory
        self.topic, self.queue_id, self.number = topic, queue_id, number
        self._segment_size = segment_size
        self.segments = segments or []
        self.end_position = self.next_position = end_position
        self.synced_position = self.indexed_position = end_position
        self.synced_base = self.segments[-1].base_position if self.segments else -1
        self.end_offset = self.next_offset = end_offset
        self.last_timestamp = last_timestamp
        self._records: list[bytes] = []
        self._entries: list[bytes] = []
        self._waiting: list[Waiter] = []
        self._index_tail = bytearray()
        self._is_torn = False
        self._active: Segment | None = None
        if self.segments:
            self._activate(self.segments[-1])

    def _activate(self, segment: Segment) -> None:
        self._active = segment
        self._log_path = segment.log_path

    # -- what there is ------------------------------------------------------------------------

    @property
    def min_offset(self) -> int:
        """The offset of the oldest record."""
        return self.segments[0].base_offset if self.segments else self.end_offset

    @property
    def max_offset(self) -> int:
        """The offset that the next record will be visible at."""
        return self.end_offset

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.end_position - self.segments[0].base_position if self.segments else 0

    @property
    def next_physical_offset(self) -> int:
        """Where the next appended record will stand."""
        return physical_offset(self.number, self.next_position)

    @property
    def ends_empty(self) -> bool:
        """Whether the newest segment holds no record yet."""
        return bool(self.segments) and self.segments[-1].base_position == self.end_position

    # -- appending ----------------------------------------------------------------------------

    @property
    def has_pending(self) -> bool:
        """Whether appends wait for `commit`."""
        return bool(self._records)

    def append(self, record: bytes, tags_code: int, waiter: Waiter | None) -> None:
        """Takes a record that was encoded with `next_offset` and `next_physical_offset`."""
        size = len(record)
        position = self.next_position
        self._records.append(record)
        self._entries.append(ENTRY.pack(physical_offset(self.number, position), size, tags_code))
        self.next_position = position + size
        self.next_offset += 1
        if waiter is not None:
            self._waiting.append(waiter)

    def append_many(
        self, records: bytes, entries: bytes, count: int, waiter: Waiter | None
    ) -> None:
        """Takes many records back to back, with their index entries ready-made."""
        self._records.append(records)
        self._entries.append(entries)
        self.next_position += len(records)
        self.next_offset += count
        if waiter is not None:
            self._waiting.append(waiter)

    def commit(self, now_ms: int) -> list[Waiter]:
        """Writes what was appended in one write and makes it visible; returns who is to be told.

        Raises:
            OSError: nothing of it was kept; `roll_back` tells who is to be told.
        """
        records = self._records
        data = records[0] if len(records) == 1 else b"".join(records)
        if self._is_torn:
            self._cut_torn_end()
        active = self._active
        if active is None or (
            self.end_position > active.base_position
            and self.end_position + len(data) - active.base_position > self._segment_size
        ):
            active = self.begin_segment(now_ms)
        try:
            self._files.write(
                self._log_path, self.end_position - active.base_position + HEADER_SIZE, data
            )
        except OSError:
            # A part of it may stand in the file: it must not be taken for records later on.
            self._is_torn = True
            raise
        self.end_position = self.next_position
        self.end_offset = self.next_offset
        self._index_tail += b"".join(self._entries)
        waiting = self._waiting
        self._records, self._entries, self._waiting = [], [], []
        if len(self._index_tail) >= INDEX_TAIL_SIZE_MAX:
            self._write_index_lazily()
        return waiting

    def roll_back(self) -> list[Waiter]:
        """Forgets what was appended since the last commit; returns who is to be told."""
        waiting = self._waiting
        self._records, self._entries, self._waiting = [], [], []
        self.next_position, self.next_offset = self.end_position, self.end_offset
        if self._is_torn:
            try:
                self._cut_torn_end()
            except OSError as e:
                # It is tried again before the next write, and recovery would cut it too.
                log.warning("%s cannot be cut to its sound records: %s", self._log_path, e)
        return waiting

    def _cut_torn_end(self) -> None:
        assert self._active is not None
        self._files.truncate(
            self._log_path, self.end_position - self._active.base_position + HEADER_SIZE
        )
        self._is_torn = False

    def begin_segment(self, now_ms: int) -> Segment:
        """Begins a new segment: what is committed from now on goes there.

        Raises:
            OSError: there is no new segment, everything is as before.
        """
        assert self._active is None or self.end_position > self._active.base_position
        if self.size >= LOG_SIZE_MAX:
            raise OSError(
                errno.EFBIG,
                f"queue {self.queue_id} of {self.topic} holds {self.size} bytes and can hold "
                f"{LOG_SIZE_MAX} at the most: shorten fileReservedTime or use more queues",
            )
        if self._active is not None:
            self.write_index()
        segment = Segment(
            segment_stem(self.directory, self.end_position),
            self.number,
            self.end_position,
            self.end_offset,
            now_ms,
        )
        # The index first: a log file without its index could not be told from a damaged one.
        try:
            self._files.create(segment.index_path, segment.header(INDEX_MAGIC))
            self._files.create(segment.log_path, segment.header(LOG_MAGIC))
        except OSError:
            self._files.delete(segment.log_path)
            self._files.delete(segment.index_path)
            raise
        self.segments.append(segment)
        self._activate(segment)
        return segment

    @property
    def index_tail_size(self) -> int:
        """Bytes of index entries that are only in memory."""
        return len(self._index_tail)

    def _write_index_lazily(self) -> None:
        try:
            self.write_index()
        except OSError as e:
            # The entries stay in memory, and the index can always be made again from the log.
            log.warning("the index of %s:%d cannot be written: %s", self.topic, self.queue_id, e)

    def tidy(self) -> None:
        """Writes what is only in memory, and cuts off what a failed write left behind.

        Raises:
            OSError: the log is as sound as before.
        """
        if self._is_torn:
            self._cut_torn_end()
        self.write_index()

    def write_index(self) -> None:
        """Writes the index entries that are only in memory.

        Raises:
            OSError: they stay in memory.
        """
        if not self._index_tail:
            return
        assert self._active is not None
        in_memory = len(self._index_tail) // ENTRY_SIZE
        written = self.end_offset - self._active.base_offset - in_memory
        self._files.write(
            self._active.index_path, HEADER_SIZE + written * ENTRY_SIZE, self._index_tail
        )
        self._index_tail = bytearray()

    # -- reading ------------------------------------------------------------------------------

    def read(
        self,
        offset: int,
        count_max: int,
        size_max: int,
        tags_codes: Collection[int] | None = None,
        matches: Callable[[bytes], bool] | None = None,
    ) -> Slice:
        """Records from an offset on, within one segment.

        Args:
            offset: within min_offset and max_offset.
            count_max: so many records at the most.
            size_max: so many bytes at the most, but always one record.
            tags_codes: only records with one of these; None for all.
            matches: only records that it says yes to; each is read for it.
        """
        segment, end_offset = self._segment_of(offset)
        if matches is not None:
            scan = max(count_max, SCAN_RECORDS_MAX)
        else:
            scan = count_max if tags_codes is None else max(count_max, SCAN_ENTRIES_MAX)
        entries = self._read_entries(segment, offset, min(scan, end_offset - offset))
        if tags_codes is None and matches is None:
            return self._read_run(segment, offset, entries, size_max)
        return self._read_matching(
            segment, offset, entries, count_max, size_max, tags_codes, matches
        )

    def _read_run(self, segment: Segment, offset: int, entries: bytes, size_max: int) -> Slice:
        """Neighbouring records: one slice of the file."""
        start = segment.position_of(ENTRY.unpack_from(entries, 0)[0])
        count = self._count_within(segment, entries, start + size_max)
        end = self._end_of(segment, entries, count - 1)
        return Slice(self._read_log(segment, start, end), count, offset + count)

    def _count_within(self, segment: Segment, entries: bytes, end_max: int) -> int:
        """How many of the entries' records end at or before a position; always one."""
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
        """The bytes of a segment between two positions."""
        data = b""
        if segment.base_position <= start < end:
            data = self._files.read(
                segment.log_path, start - segment.base_position + HEADER_SIZE, end - start
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
    ) -> Slice:
        runs: list[list[int]] = []
        count = size = examined = 0
        next_offset = offset
        for place, record_size, code in ENTRY.iter_unpack(entries):
            position = segment.position_of(place)
            end = position + record_size
            if matches is not None:
                examined += record_size
                if examined > SCAN_SIZE_MAX and next_offset > offset:
                    break
            if (tags_codes is None or code in tags_codes) and (
                matches is None or matches(self._read_log(segment, position, end))
            ):
                if count and (count >= count_max or size + record_size > size_max):
                    break
                if runs and runs[-1][1] == position:
                    runs[-1][1] = end
                else:
                    runs.append([position, end])
                count += 1
                size += record_size
            next_offset += 1
        data = b"".join([self._read_log(segment, start, end) for start, end in runs])
        return Slice(data, count, next_offset)

    @staticmethod
    def _end_of(segment: Segment, entries: bytes, index: int) -> int:
        place, size, _ = ENTRY.unpack_from(entries, index * ENTRY_SIZE)
        end: int = segment.position_of(place) + size
        return end

    def read_record(self, physical: int) -> bytes:
        """The record at a physical offset of this log; empty if none begins there."""
        if not self.segments:
            return b""
        position = self.segments[0].position_of(physical)
        if position >= self.end_position:
            return b""
        index = bisect.bisect_right(self.segments, position, key=lambda s: s.base_position) - 1
        segment = self.segments[index]
        at = position - segment.base_position + HEADER_SIZE
        size = int.from_bytes(self._files.read(segment.log_path, at, 4), "big")
        if not 0 < size <= self.end_position - position:
            return b""
        data = self._files.read(segment.log_path, at, size)
        return data if check_record(data, 0, len(data)) == size else b""

    def timestamp_at(self, offset: int) -> int:
        """The store time, in milliseconds, of the record at an offset."""
        segment, _ = self._segment_of(offset)
        place, size, _ = ENTRY.unpack(self._read_entries(segment, offset, 1))
        start = segment.position_of(place)
        head = self._read_log(segment, start, start + min(size, _RECORD_TIME_SIZE))
        return read_store_timestamp(head)

    def offset_at_time(self, timestamp: int, *, upper: bool = False) -> int:
        """The offset at a store time (behaviour.md §11, code 29).

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
        """Index entries from an offset on, within one segment."""
        segment, end_offset = self._segment_of(offset)
        return self._read_entries(segment, offset, min(count, end_offset - offset))

    def read_with_entries(self, offset: int, count_max: int, size_max: int) -> tuple[bytes, bytes]:
        """Records from an offset on, within one segment, and their index entries.

        At most so many records and bytes, but always one record.
        """
        segment, end_offset = self._segment_of(offset)
        entries = self._read_entries(segment, offset, min(count_max, end_offset - offset))
        start = segment.position_of(ENTRY.unpack_from(entries, 0)[0])
        count = self._count_within(segment, entries, start + size_max)
        data = self._read_log(segment, start, self._end_of(segment, entries, count - 1))
        return data, entries[: count * ENTRY_SIZE]

    def position_at(self, offset: int) -> int:
        """Where the record of an offset stands, or will stand when it comes."""
        if offset >= self.end_offset:
            return self.end_position
        segment, _ = self._segment_of(offset)
        return segment.position_of(ENTRY.unpack(self._read_entries(segment, offset, 1))[0])

    def _segment_of(self, offset: int) -> tuple[Segment, int]:
        """The segment that holds an offset, and the offset where it ends."""
        active = self._active
        assert active is not None
        assert self.min_offset <= offset < self.end_offset, (offset, self.end_offset)
        if offset >= active.base_offset:
            return active, self.end_offset
        index = bisect.bisect_right(self.segments, offset, key=lambda s: s.base_offset)
        return self.segments[index - 1], self.segments[index].base_offset

    def _read_entries(self, segment: Segment, offset: int, count: int) -> bytes:
        tail = b""
        if segment is self._active and self._index_tail:
            tail_start = self.end_offset - len(self._index_tail) // ENTRY_SIZE
            at = max(offset - tail_start, 0)
            in_file = max(min(count, tail_start - offset), 0)
            tail = bytes(self._index_tail[at * ENTRY_SIZE : (at + count - in_file) * ENTRY_SIZE])
            if not in_file:
                return tail
            count = in_file
        at = HEADER_SIZE + (offset - segment.base_offset) * ENTRY_SIZE
        entries = self._files.read(segment.index_path, at, count * ENTRY_SIZE)
        if len(entries) != count * ENTRY_SIZE:
            raise FormatError(
                segment.index_path,
                "it is shorter than its log: stop the broker and delete it, it is made again",
            )
        return entries + tail

    # -- durability ---------------------------------------------------------------------------

    def forget_syncs_behind(self, position: int) -> None:
        """Notes that only what is before a position is known to be on the disk."""
        self.synced_position = self.indexed_position = min(position, self.end_position)
        before = [s.base_position for s in self.segments if s.base_position < position]
        self.synced_base = before[-1] if before else -1

    def unsynced_logs(self) -> list[Path]:
        """Log files that may not be on the disk yet; a new one without records counts too."""
        return [segment.log_path for segment in self._segments_behind(self.synced_position)]

    def unsynced_indexes(self) -> list[Path]:
        """Index files that may not be on the disk yet."""
        return [segment.index_path for segment in self._segments_behind(self.indexed_position)]

    def _segments_behind(self, position: int) -> list[Segment]:
        """The segments that end behind a position or have no durable directory entry."""
        out: list[Segment] = []
        end = self.end_position
        for segment in reversed(self.segments):
            if end <= position and segment.base_position <= self.synced_base:
                break
            out.append(segment)
            end = segment.base_position
        out.reverse()
        return out

    def unsynced_directories(self) -> list[Path]:
        """Directories whose newest entries may not be on the disk yet."""
        if self.segments and self.segments[-1].base_position > self.synced_base:
            # Those above were perhaps made for this queue: the topic's, the root of all queues.
            return [self.directory, *self.directory.parents[:3]]
        return []

    # -- the end of old records ---------------------------------------------------------------

    def segment_end(self, index: int) -> tuple[int, int]:
        """(position, queue offset) where the segment of an index ends."""
        if index + 1 < len(self.segments):
            follower = self.segments[index + 1]
            return follower.base_position, follower.base_offset
        return self.end_position, self.end_offset

    def segment_last_timestamp(self, index: int) -> int:
        """Store time of the last record of a segment; when it was begun if it has none."""
        _, end_offset = self.segment_end(index)
        if end_offset == self.end_offset and self.last_timestamp:
            return self.last_timestamp  # known without a look at the disk
        if end_offset == self.segments[index].base_offset:
            return self.segments[index].created_ms
        return self.timestamp_at(end_offset - 1)

    @property
    def has_spare_segment(self) -> bool:
        """Whether the oldest segment may go: the next one is on the disk.

        One segment always remains, if need be an empty one: its header keeps the offset at which
        the queue goes on.
        """
        return len(self.segments) > 1 and self.segments[1].base_position <= self.synced_base

    def drop_oldest_segment(self) -> int:
        """Removes the oldest segment; returns its bytes. The offsets of the others stay."""
        assert self.has_spare_segment
        segment = self.segments[0]
        size = self.segments[1].base_position - segment.base_position
        del self.segments[0]
        self._files.delete(segment.log_path)
        self._files.delete(segment.index_path)
        self._files.delete(segment.keys_path)
        return size

    def delete(self) -> None:
        """Removes all files; the log must not be used any more."""
        self._is_torn = False
        self.roll_back()
        for segment in self.segments:
            self._files.delete(segment.log_path)
            self._files.delete(segment.index_path)
            self._files.delete(segment.keys_path)
        self.segments.clear()
        self._active = None
        self._index_tail = bytearray()
