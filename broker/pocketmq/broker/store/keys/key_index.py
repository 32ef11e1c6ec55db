"""Makes key files from the logs in the background, by which messages are found by their keys.

A send costs nothing here. What the checkpoints have brought to the disk is indexed later, in slices
of about a millisecond: with nothing else to do one after the other, while messages come in for a
small share of the time, and for a larger one only when too much is left behind. Searches read what
is not indexed yet from the log itself.
"""

from __future__ import annotations

import logging
import sys
from array import array
from collections import OrderedDict

from isal.isal_zlib import crc32

from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.keys.key_file import KeyFile, KeyFileError, SortedRun, read_key_file
from pocketmq.broker.store.keys.key_merge import merge_path, merge_runs
from pocketmq.broker.store.keys.message_keys import index_items
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE, Segment
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.store import MessageStore

log = logging.getLogger("pocketmq.store")

RUN_RECORDS = 4096
RUN_SIZE = 1024 * 1024
"""From so many records or bytes on, a queue's newest ones get a run; fewer are searched as they
are."""

RUN_ITEMS_MAX = 8192
"""A run of records with many keys ends here, so that sorting it takes no longer than others."""

SLICE_RECORDS = 256
SLICE_RECORDS_TOGETHER = 1024
SLICE_SIZE = 256 * 1024
"""What is indexed between two turns of the loop; more if records are looked at together."""

TOGETHER_MIN = 64
"""So many records are looked at together rather than one by one, if that can be done."""

BUSY_PAUSES = 24
"""Pauses of a slice's length after each slice while messages come in, or go out by bulk pulls: 4 %
of the time."""

BUSY_S = 0.1
"""So long after it work counts as going on: a large request comes in over several turns."""

BEHIND_PAUSES = 3
BEHIND_SIZE_MAX = 1024 * 1024 * 1024
"""With more bytes than this left behind the pauses are shorter.

A bulk write of millions of rows is indexed when it is over: meanwhile it would take a quarter of
the broker's time. Searches scan as much at the worst."""

KEY_FILES_MAX = 4096
"""Key files whose runs are remembered."""

UNSEEN_PER_ROUND_MAX = 64
"""Logs that are opened in one round to see how far they were indexed before the start."""

LOGS_REMEMBERED_MAX = 100_000
"""Logs of which is remembered up to where they need no more; of the others it is found out anew."""


class KeyIndex:
    """Makes and reads the key files of a store.

    Args:
        store: whose records are found; it tells `want` what checkpoints have brought to the disk.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store, self._puts, self._logs = store, store.counters, store.logs
        self._files, self._clock = store.files, store.clock.machine
        self._wanted: dict[QueueLog, None] = {}
        self._unseen: list[tuple[str, int]] | None = None
        self._complete: dict[int, int] = {}
        self._failing: set[tuple[str, int]] = set()
        self._key_files: OrderedDict[tuple[int, int], KeyFile] = OrderedDict()
        self._caught_up_size = self._work_count = 0
        self._busy_until_s = 0.0

    def want(self, queue_log: QueueLog) -> None:
        """Has a log indexed further in the next round, since more of it is on the disk."""
        self._wanted[queue_log] = None

    def key_file(self, queue_log: QueueLog, segment: Segment) -> KeyFile:
        """Returns the key file of a segment, without runs whose records have changed since."""
        place = (queue_log.number, segment.base_position)
        key_file = self._key_files.get(place)
        if key_file is None:
            key_file = read_key_file(self._files, segment)
            while key_file.runs and not _is_current(queue_log, key_file):
                key_file.drop_last()
            self._key_files[place] = key_file
            if len(self._key_files) > KEY_FILES_MAX:
                self._key_files.popitem(last=False)
        else:
            self._key_files.move_to_end(place)
        return key_file

    def discard(self, queue_log: QueueLog, error: KeyFileError, segment: Segment) -> None:
        """Deletes a damaged key file; the next round makes it again."""
        log.warning("%s: it is made again", error)
        self._files.delete(segment.keys_path)
        self._key_files.pop((queue_log.number, segment.base_position), None)
        self._complete.pop(queue_log.number, None)
        self.want(queue_log)

    # -- making key files ---------------------------------------------------------------------

    async def run(self) -> None:
        """Runs one round: indexes the logs that have grown, the first time all logs."""
        if self._unseen is None:
            self._unseen = [
                (known.topic, known.queue_id)
                for known in self._logs.table
                if self._may_be_worth_a_run(known)
            ]
        for _ in range(min(len(self._unseen), UNSEEN_PER_ROUND_MAX)):
            await self._try(*self._unseen.pop())
            await self._clock.sleep(0)
        wanted, self._wanted = self._wanted, {}
        for queue_log in wanted:
            await self._try(queue_log.topic, queue_log.queue_id)
        if not self._wanted:
            self._caught_up_size = self._puts.total.size

    def _may_be_worth_a_run(self, known: KnownLog) -> bool:
        """Whether a log may hold enough for a run, judged by its checkpoint without opening it.

        One that has grown since its last checkpoint is told of by the next one.
        """
        checkpoint = known.checkpoint
        return (
            checkpoint is None
            or checkpoint.offset >= RUN_RECORDS
            or checkpoint.position >= min(RUN_SIZE, self._logs.segment_size)
        )

    async def _try(self, topic: str, queue_id: int) -> None:
        """Indexes a log; one that cannot be read or written now is tried again next time."""
        place = (topic, queue_id)
        queue_log: QueueLog | None = None
        try:
            queue_log = self._logs.find_log(topic, queue_id)
            if queue_log is not None:
                await self._index(queue_log)
            self._failing.discard(place)
        except (OSError, StoreError) as e:
            if place not in self._failing:
                log.warning("the keys of %s queue %d cannot be indexed now: %s", topic, queue_id, e)
                self._failing.add(place)
            if queue_log is not None:
                self.want(queue_log)

    async def _index(self, queue_log: QueueLog) -> None:
        complete = self._complete.get(queue_log.number, -1)
        for segment in list(queue_log.segments):
            if segment.base_offset < complete:
                continue
            try:
                is_complete = await self._index_segment(queue_log, segment)
            except KeyFileError as e:
                self.discard(queue_log, e, segment)
                return
            if not is_complete:
                return
            if len(self._complete) >= LOGS_REMEMBERED_MAX:
                self._complete.clear()
            self._complete[queue_log.number] = segment.base_offset + 1

    async def _index_segment(self, queue_log: QueueLog, segment: Segment) -> bool:
        """Extends a segment's key file if that is worth it; returns whether it never needs more."""
        while self._is_there(queue_log, segment):
            end_position, end_offset = _end_of(queue_log, segment)
            if end_offset > queue_log.end_offset:
                return False  # the last records are not to be read yet
            is_finished = segment is not queue_log.segments[-1]
            if not is_finished and _is_too_small(segment, end_position, end_offset):
                return False  # without a look for its key file, which it cannot have
            key_file = self.key_file(queue_log, segment)
            offset = key_file.end_offset
            if offset == end_offset and is_finished:
                return await self._merge(queue_log, key_file)
            if not is_finished and not _is_worth_a_run(queue_log, offset, end_position, end_offset):
                return False
            await self._add_run(queue_log, key_file, end_offset)
        return False

    async def _add_run(self, queue_log: QueueLog, key_file: KeyFile, end_offset: int) -> None:
        segment, first = key_file.segment, key_file.end_offset
        offset, size, record = first, 0, b""
        items = array("Q")
        slice_records = SLICE_RECORDS_TOGETHER if _is_together() else SLICE_RECORDS
        while (
            offset < min(end_offset, first + RUN_RECORDS)
            and size < RUN_SIZE
            and len(items) < RUN_ITEMS_MAX
        ):
            started = self._clock.monotonic()
            count = min(slice_records, end_offset - offset, first + RUN_RECORDS - offset)
            data, entries = queue_log.read_with_entries(offset, count, SLICE_SIZE)
            items += _items_of(data, entries, offset - segment.base_offset)
            offset += len(entries) // ENTRY_SIZE
            size += len(data)
            record = data[-ENTRY.unpack_from(entries, len(entries) - ENTRY_SIZE)[1] :]
            await self._pause(started)
            if not self._is_there(queue_log, segment) or key_file.end_offset != first:
                return
        self._caught_up_size += size
        key_file.append(items, offset, crc32(record))

    async def _merge(self, queue_log: QueueLog, key_file: KeyFile) -> bool:
        if len(key_file.runs) < 2:
            return True
        segment, path = key_file.segment, merge_path(key_file)
        runs = list(key_file.runs)
        merged: list[SortedRun] = []
        try:
            started = self._clock.monotonic()
            for _ in merge_runs(self._files, key_file, merged):
                await self._pause(started)
                if not self._is_there(queue_log, segment) or key_file.runs != runs:
                    return False
                started = self._clock.monotonic()
            self._files.replace(path, segment.keys_path)
        finally:
            self._files.delete(path)
        key_file.runs = merged
        return True

    def _is_there(self, queue_log: QueueLog, segment: Segment) -> bool:
        """Whether a segment still exists: its topic may be deleted, or the segment itself."""
        return (
            self._logs.find_log(queue_log.topic, queue_log.queue_id) is queue_log
            and segment in queue_log.segments
        )

    async def _pause(self, started: float) -> None:
        """Gives others their turn after a slice of work, the longer the busier the broker is."""
        pauses = 0
        now_s = self._clock.monotonic()
        work_count = self._puts.total.messages + self._puts.bulk_read_count
        if work_count != self._work_count:
            self._work_count, self._busy_until_s = work_count, now_s + BUSY_S
        if now_s < self._busy_until_s:
            is_behind = self._puts.total.size - self._caught_up_size > BEHIND_SIZE_MAX
            pauses = BEHIND_PAUSES if is_behind else BUSY_PAUSES
        await self._clock.sleep((now_s - started) * pauses)


def _is_together() -> bool:
    """Whether a bulk request has brought numpy in, which looks at many records together."""
    return "numpy" in sys.modules


def _items_of(data: bytes, entries: bytes, offset: int) -> array[int]:
    """As `index_items`, for many records together if that can be done."""
    if len(entries) < TOGETHER_MIN * ENTRY_SIZE or not _is_together():
        return array("Q", index_items(data, entries, offset))
    from pocketmq.broker.store.keys.bulk_keys import bulk_index_items

    return bulk_index_items(data, entries, offset)


def _end_of(queue_log: QueueLog, segment: Segment) -> tuple[int, int]:
    return queue_log.segment_end(queue_log.segments.index(segment))


def _is_too_small(segment: Segment, end_position: int, end_offset: int) -> bool:
    """Whether all records of a segment together are not worth a run."""
    return (
        end_offset - segment.base_offset < RUN_RECORDS
        and end_position - segment.base_position < RUN_SIZE
    )


def _is_worth_a_run(queue_log: QueueLog, offset: int, end_position: int, end_offset: int) -> bool:
    return end_offset - offset >= RUN_RECORDS or (
        offset < end_offset and end_position - queue_log.position_at(offset) >= RUN_SIZE
    )


def _is_current(queue_log: QueueLog, key_file: KeyFile) -> bool:
    """Whether the last record that a key file covers is the one that the file was made of.

    A log is only ever cut at its end: if that record is there, all before it are.
    """
    run = key_file.runs[-1]
    segments = queue_log.segments
    if key_file.segment not in segments:
        return False
    if run.end_offset > _end_of(queue_log, key_file.segment)[1]:
        return False
    record, _ = queue_log.read_with_entries(run.end_offset - 1, 1, 0)
    return crc32(record) == run.fingerprint
