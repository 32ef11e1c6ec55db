"""Makes entries of an index again that do not fit the log, while the broker runs."""

from __future__ import annotations

import asyncio
import logging

from pocketmq.broker.store.disk.errors import FormatError, IndexMendingError
from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.index_recovery import entries_of
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.scan import scan
from pocketmq.broker.store.log.segment import ENTRY, ENTRY_SIZE, HEADER_SIZE, Segment
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.store")


class IndexMending:
    """Compares the index of a segment with its log where a read has failed.

    The log is the truth. Only entries of an earlier run are looked at: what this run appended is
    as it was in memory. A thread reads the segment; reads of the queue fail until it has done so.

    Args:
        files: the disk.
    """

    def __init__(self, files: Files) -> None:
        self._files = files
        self._tasks = Tasks()
        self._compared: set[tuple[int, int]] = set()
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}

    def check(self, queue_log: QueueLog, offset: int) -> None:
        """Begins to mend the index if it, and not the log, is why a read at an offset failed.

        Raises:
            IndexMendingError: that has begun; the read will succeed later, or tell of the log.
        """
        if offset >= queue_log.unverified_end or self._is_log_damaged(queue_log, offset):
            return
        index = next(
            i for i, s in reversed(list(enumerate(queue_log.segments))) if s.base_offset <= offset
        )
        segment, end_offset = queue_log.segments[index], queue_log.segment_end(index)[1]
        end_offset = min(end_offset, queue_log.unverified_end)
        key = (queue_log.number, segment.base_offset)
        if key in self._compared:
            return
        if key not in self._under_way:
            mending = self._mend(segment, end_offset, key)
            self._under_way[key] = self._tasks.spawn(mending, f"index {segment.index_path}")
        raise IndexMendingError(queue_log.topic, queue_log.queue_id)

    def _is_log_damaged(self, queue_log: QueueLog, offset: int) -> bool:
        """Whether there is no sound record where a sound one before it, or the segment, says."""
        segment = next(s for s in reversed(queue_log.segments) if s.base_offset <= offset)
        position = segment.base_position
        if offset > segment.base_offset:
            try:
                physical, _, _ = ENTRY.unpack(queue_log.read_entries(offset - 1, 1))
            except FormatError:
                return False
            before = next(
                scan(self._files, segment, segment.position_of(physical), offset - 1), None
            )
            if before is None:
                return False
            position = before.position + before.size
        return next(scan(self._files, segment, position, offset), None) is None

    async def _mend(self, segment: Segment, end_offset: int, key: tuple[int, int]) -> None:
        try:
            entries = await asyncio.to_thread(_entries_up_to, segment, end_offset)
            if entries is not None:
                self._replace(segment, entries)
        finally:
            self._compared.add(key)
            del self._under_way[key]

    def _replace(self, segment: Segment, entries: bytes) -> None:
        path = segment.index_path
        found = self._files.read(path, HEADER_SIZE, len(entries))
        if found == entries:
            return
        self._files.write(path, HEADER_SIZE, entries)
        self._files.sync(path)
        wrong = sum(
            found[at : at + ENTRY_SIZE] != entries[at : at + ENTRY_SIZE]
            for at in range(0, len(entries), ENTRY_SIZE)
        )
        log.warning("%s: %d entries did not fit the log and were made again", path, wrong)

    async def wait(self) -> None:
        """Returns when nothing is under way."""
        while self._under_way:
            await asyncio.gather(*self._under_way.values(), return_exceptions=True)

    async def close(self) -> None:
        """Ends what is under way."""
        await self._tasks.close()


def _entries_up_to(segment: Segment, end_offset: int) -> bytes | None:
    files = Files(2, read_only=True)
    try:
        return entries_of(files, segment, end_offset)
    finally:
        files.close()
