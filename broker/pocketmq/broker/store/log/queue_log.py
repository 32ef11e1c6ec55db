"""Appends records to the log of one queue, in order, and commits them together."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Sequence
from enum import Enum, auto
from pathlib import Path

import msgspec

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.readable_log import ReadableLog
from pocketmq.broker.store.log.segment import (
    ENTRY,
    ENTRY_SIZE,
    HEADER_SIZE,
    INDEX_MAGIC,
    LOG_MAGIC,
    LOG_SIZE_MAX,
    POSITION_BITS,
    POSITION_MASK,
    Segment,
    segment_stem,
)
from pocketmq.protocol.errors import OperatingError

log = logging.getLogger("pocketmq.store")

INDEX_TAIL_SIZE_MAX = 64 * 1024
"""Index entries kept in memory before they are written; the log is always written first."""

JOINED_SIZE_MAX = 4 * 1024
"""Pieces of fewer bytes on average are joined by a copy before they are written."""

_pack_entry = ENTRY.pack  # for CPython, which makes no fast calls on what was imported

OnStored = Callable[[OperatingError | None], object]
"""Told once what became of an append: None when it is as durable as it was asked to be."""


class Durability(Enum):
    """How safe a record must be before its append counts as done."""

    WRITTEN = auto()
    """The operating system has the record; a power cut may still take it."""
    AS_CONFIGURED = auto()
    """The record is as safe as the broker's settings promise to senders (flushDiskType)."""


WRITTEN, AS_CONFIGURED = Durability.WRITTEN, Durability.AS_CONFIGURED


class Waiter(msgspec.Struct, frozen=True, gc=False):
    """The callback of an append, and how safe the record must be before it is called."""

    on_stored: OnStored
    durability: Durability


class QueueLog(ReadableLog):
    """Gathers and commits the appends of one queue, and knows how much of the log is on the disk.

    Appends are gathered in memory and become visible, all or none, with `commit`; `next_offset`
    and `next_position` already count them, so that a record can be encoded with its final place.

    Args:
        files: the disk.
        directory: of this queue's segments.
        topic, queue_id: what the log is of.
        number: its part of the physical offsets.
        segment_size: bytes of records after which a new segment is created.
        segments: those that exist, in order.
        end_position, end_offset: behind the last record.
        last_timestamp: store time of the last record; store times never go back within a log.

    Attributes:
        directory_text: the path of the directory, as text.
        synced_position: up to where the records are on the disk.
        synced_base: where the newest segment begins whose directory entry is on the disk.
        indexed_position: up to where the index is on the disk.
        unverified_end: records before this offset were not checked since the start.
        opened_position, opened_offset: where it ended when the broker opened it.
    """

    __slots__ = (
        "__weakref__",
        "_entries",
        "_is_torn",
        "_records",
        "_segment_size",
        "_waiting",
        "directory_text",
        "indexed_position",
        "next_offset",
        "next_position",
        "number",
        "opened_offset",
        "opened_position",
        "synced_base",
        "synced_position",
        "unverified_end",
    )

    def __init__(
        self,
        files: Files,
        directory: Path | str,
        topic: str,
        queue_id: int,
        number: int,
        segment_size: int,
        segments: list[Segment] | None = None,
        end_position: int = 0,
        end_offset: int = 0,
        last_timestamp: int = 0,
    ) -> None:
        super().__init__(files, topic, queue_id, segments, end_position, end_offset, last_timestamp)
        self.directory_text, self.number, self._segment_size = str(directory), number, segment_size
        self.next_position = self.synced_position = self.indexed_position = end_position
        self.next_offset = end_offset
        self.synced_base = self.segments[-1].base_position if self.segments else -1
        self.unverified_end = end_offset
        self.opened_position, self.opened_offset = end_position, end_offset
        self._records: list[bytes | memoryview] = []
        self._entries: list[bytes] = []
        self._waiting: list[Waiter] = []
        self._is_torn = False

    @property
    def directory(self) -> Path:
        """The directory of this queue's segments."""
        return Path(self.directory_text)

    # -- appending ----------------------------------------------------------------------------

    @property
    def next_physical_offset(self) -> int:
        """The physical offset of the next record that is appended."""
        return self.number << POSITION_BITS | self.next_position & POSITION_MASK

    @property
    def next_file_position(self) -> int:
        """The position of the next record in its file, unless a new segment is created for it."""
        begin = self._active.base_position if self._active is not None else self.next_position
        return self.next_position - begin + HEADER_SIZE

    @property
    def has_pending(self) -> bool:
        """Whether appends wait for `commit`."""
        return bool(self._records)

    def append(self, record: bytes, tags_code: int, waiter: Waiter | None) -> None:
        """Gathers a record that was encoded with `next_offset` and `next_physical_offset`."""
        size = len(record)
        position = self.next_position
        self._records.append(record)
        place = self.number << POSITION_BITS | position & POSITION_MASK  # `physical_offset`
        self._entries.append(_pack_entry(place, size, tags_code))
        self.next_position = position + size
        self.next_offset += 1
        if waiter is not None:
            self._waiting.append(waiter)

    def append_parts(self, parts: Sequence[bytes], tags_code: int, waiter: Waiter) -> None:
        """Gathers a record as `append` does, in parts that `commit` writes without joining them."""
        size = sum(map(len, parts))
        place = self.next_physical_offset
        self._records.extend(parts)
        self._entries.append(_pack_entry(place, size, tags_code))
        self.next_position += size
        self.next_offset += 1
        self._waiting.append(waiter)

    def append_many(
        self, records: bytes | memoryview, entries: bytes, count: int, waiter: Waiter | None
    ) -> None:
        """Gathers many records back to back, with their index entries ready-made."""
        self._records.append(records)
        self._entries.append(entries)
        self.next_position += len(records)
        self.next_offset += count
        if waiter is not None:
            self._waiting.append(waiter)

    def commit(self, now_ms: int, *, is_held: bool = False) -> list[Waiter]:
        """Writes the gathered records in one write and makes them visible; returns their waiters.

        Args:
            now_ms: stamps a segment that is created for them.
            is_held: whether they stay invisible until `show`.

        Raises:
            OSError: nothing was kept; `roll_back` returns the waiters.
        """
        records = self._records
        size = self.next_position - self.written_position
        if self._is_torn:
            self._cut_torn_end()
        written = 0 if self._active is None else self.written_position - self._active.base_position
        if self._active is None or (written and written + size > self._segment_size):
            self.begin_segment(now_ms)
            written = 0
        try:
            if len(records) == 1:
                self._files.write(self._log_path, written + HEADER_SIZE, records[0])
            elif size < len(records) * JOINED_SIZE_MAX:
                self._files.write(self._log_path, written + HEADER_SIZE, b"".join(records))
            else:
                self._files.write_parts(self._log_path, written + HEADER_SIZE, records)
        except OSError:
            # A part of it may stand in the file: it must not be taken for records later on.
            self._is_torn = True
            raise
        self.written_position = self.next_position
        self.written_offset = self.next_offset
        if not is_held:
            self.end_position, self.end_offset = self.next_position, self.next_offset
        self._index_tail += b"".join(self._entries)
        waiting = self._waiting
        self._records, self._entries, self._waiting = [], [], []
        if len(self._index_tail) >= INDEX_TAIL_SIZE_MAX:
            self._write_index_lazily()
        return waiting

    def show(self, position: int, offset: int) -> None:
        """Makes the records before a position and offset visible, if they were held back."""
        if offset > self.end_offset:
            self.end_position, self.end_offset = position, offset

    @property
    def pending(self) -> tuple[list[bytes | memoryview], list[bytes]]:
        """The records that the next commit writes, in pieces, and their index entries."""
        return self._records, self._entries

    def roll_back(self) -> list[Waiter]:
        """Forgets the records gathered since the last commit; returns their waiters."""
        waiting = self._waiting
        self._records, self._entries, self._waiting = [], [], []
        self.next_position, self.next_offset = self.written_position, self.written_offset
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
            self._log_path, self.written_position - self._active.base_position + HEADER_SIZE
        )
        self._is_torn = False

    def begin_segment(self, now_ms: int) -> Segment:
        """Creates a new segment, which takes what is committed from now on.

        Raises:
            OSError: there is no new segment, everything is as before.
        """
        assert self._active is None or self.written_position > self._active.base_position
        if self.size >= LOG_SIZE_MAX:
            raise OSError(
                errno.EFBIG,
                f"queue {self.queue_id} of {self.topic} holds {self.size} bytes and can hold "
                f"{LOG_SIZE_MAX} at the most: shorten fileReservedTime or use more queues",
            )
        if self._active is not None:
            self.write_index()
        segment = Segment(
            segment_stem(self.directory_text, self.written_position),
            self.number,
            self.written_position,
            self.written_offset,
            now_ms,
        )
        # The index first: a log file without its index could not be told from a damaged one.
        try:
            self._files.create(segment.index_file, segment.header(INDEX_MAGIC))
            self._files.create(segment.log_file, segment.header(LOG_MAGIC))
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
        """Writes the index entries in memory, and cuts off what a failed write left behind.

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
        written = self.written_offset - self._active.base_offset - in_memory
        self._files.write(
            self._active.index_file, HEADER_SIZE + written * ENTRY_SIZE, self._index_tail
        )
        self._index_tail = bytearray()

    def cut(self, position: int) -> None:
        """Removes the records from a position on, the newest first; the first segment stays.

        The checkpoint must not say any more that they are on the disk: else a start that finds them
        gone calls the log damaged.

        Args:
            position: where a record begins.

        Raises:
            OSError: some of them are still there.
            FormatError: no record begins there.
        """
        assert self.segments
        assert not self.has_pending
        offset = self.written_offset_at(position)
        self.tidy()
        while len(self.segments) > 1 and self.segments[-1].base_position >= position:
            gone = self.segments[-1]
            for path in (gone.log_path, gone.index_path, gone.keys_path):
                self._files.delete(path)
            self.written_position, self.written_offset = gone.base_position, gone.base_offset
            del self.segments[-1]
            self._activate(self.segments[-1])
        segment = self.segments[-1]
        self._files.delete(segment.keys_path)
        self._files.truncate(segment.log_file, position - segment.base_position + HEADER_SIZE)
        index_size = HEADER_SIZE + (offset - segment.base_offset) * ENTRY_SIZE
        self._files.truncate(segment.index_file, index_size)
        self.written_position = self.next_position = position
        self.written_offset = self.next_offset = offset
        if self.end_offset > offset:
            self.end_position, self.end_offset = position, offset
        self.unverified_end = min(self.unverified_end, offset)
        self.last_timestamp = segment.created_ms
        if offset > self.segments[0].base_offset:
            self.last_timestamp = self.written_timestamp(offset - 1)
        self.forget_syncs_behind(segment.base_position)

    def restart_at(self, position: int, offset: int) -> None:
        """Removes all records, the newest first; the log goes on at a position and offset.

        The checkpoint must not say any more that they are on the disk, as for `cut`.

        Raises:
            OSError: some of them are still there.
        """
        assert not self.has_pending
        while self.segments:
            gone = self.segments.pop()
            for path in (gone.log_path, gone.index_path, gone.keys_path):
                self._files.delete(path)
        self._active, self._index_tail, self._is_torn = None, bytearray(), False
        self.written_position = self.next_position = self.end_position = position
        self.written_offset = self.next_offset = self.end_offset = offset
        self.unverified_end = offset
        self.last_timestamp = 0
        self.synced_position = self.indexed_position = position
        self.synced_base = -1

    # -- durability ---------------------------------------------------------------------------

    def forget_syncs_behind(self, position: int) -> None:
        """Notes that only what is before a position is known to be on the disk."""
        self.synced_position = self.indexed_position = min(position, self.written_position)
        before = [s.base_position for s in self.segments if s.base_position < position]
        self.synced_base = before[-1] if before else -1

    def unsynced_logs(self) -> list[Path]:
        """Returns the log files that may not be on the disk yet, new ones without records too."""
        return [segment.log_path for segment in self._segments_behind(self.synced_position)]

    def unsynced_indexes(self) -> list[Path]:
        """Returns the index files that may not be on the disk yet."""
        return [segment.index_path for segment in self._segments_behind(self.indexed_position)]

    def _segments_behind(self, position: int) -> list[Segment]:
        """The segments that end behind a position or have no durable directory entry."""
        out: list[Segment] = []
        end = self.written_position
        for segment in reversed(self.segments):
            if end <= position and segment.base_position <= self.synced_base:
                break
            out.append(segment)
            end = segment.base_position
        out.reverse()
        return out

    def unsynced_directories(self) -> list[Path]:
        """Returns the directories whose newest entries may not be on the disk yet."""
        if self.segments and self.segments[-1].base_position > self.synced_base:
            # Those above were perhaps made for this queue: the topic's, the root of all queues.
            directory = self.directory
            return [directory, *directory.parents[:3]]
        return []

    # -- the end of old records ---------------------------------------------------------------

    @property
    def has_spare_segment(self) -> bool:
        """Whether the oldest segment may be removed: the next one is on the disk.

        One segment always remains, if need be an empty one: its header keeps the offset at which
        the queue goes on.
        """
        return len(self.segments) > 1 and self.segments[1].base_position <= self.synced_base

    def drop_oldest_segment(self) -> int:
        """Removes the oldest segment; returns its size. The offsets of the others stay.

        Raises:
            OSError: it is still there, and none behind it may go before it: that would be a gap.
        """
        assert self.has_spare_segment
        segment = self.segments[0]
        size = self.segments[1].base_position - segment.base_position
        self._files.delete(segment.log_path)
        del self.segments[0]
        self._files.delete(segment.index_path)
        self._files.delete(segment.keys_path)
        return size

    def forget(self) -> list[Waiter]:
        """Discards all state in memory before the files are deleted; returns the waiters of
        appends.
        """
        self._is_torn = False
        waiting = self.roll_back()
        self.segments.clear()
        self._active = None
        self._index_tail = bytearray()
        return waiting
