"""Removes old data: whole segments, by age, and by need when the disk runs full."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable

from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log_ages import LogAges
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live

log = logging.getLogger("pocketmq.store")

SEGMENTS_PER_ROUND_MAX = 64
"""Segments that one round removes, so that sends do not wait for it."""

LOOKS_PER_ROUND_MAX = 500
"""Logs whose age one round finds out; after a start none is known."""

LOGS_PER_TURN = 50
"""Logs that are looked at between two turns of the loop."""


class Retention:
    """Removes segments that are too old, and the oldest ones while the disk is too full.

    A queue always keeps a segment, if need be an empty one: its header tells at which offset the
    queue goes on. So the last segment of a queue is removed a round after its successor was
    created, when that is safely on the disk.

    Args:
        store: whose segments.
        reserved_ms: how long a record is kept after it was stored (fileReservedTime).
        still_needs: whether the oldest segment of a log must stay, however old or large it is.
    """

    def __init__(
        self,
        store: MessageStore,
        reserved_ms: Live[int],
        still_needs: Callable[[QueueLog], bool] = lambda _: False,
    ) -> None:
        self._logs, self._committer, self._clock = store.logs, store.committer, store.clock
        self._disk, self._freeing = store.disk, store.files.freeing
        self.reserved_ms, self._still_needs = reserved_ms, still_needs
        self._ages = LogAges(store.logs, store.clock)
        self._looked_before_ms = 0
        self._running = asyncio.Lock()

    async def run(self) -> int:
        """Runs one round; returns how many segments were removed."""
        async with self._running:
            self._disk.check()
            return await self._remove_expired() + await self._remove_for_room()

    def idle_s(self) -> float:
        """Returns for how many seconds rounds find nothing to remove, if nothing else happens.

        A log that a round has left as it is waits for a delivery or for a checkpoint.
        """
        if self._disk.full_reason is not None or self._disk.wants_cleaning:
            return 0.0
        limit_ms = self._clock.now_ms() - self.reserved_ms.now
        oldest_ms = self._ages.next_ms(min(limit_ms, self._looked_before_ms))
        return max(0.0, (oldest_ms + 1 - limit_ms) / 1000)

    async def _look(self, looks_max: int | None = None) -> None:
        """Finds out the ages of logs that are new, or older than the start."""
        looks = 0
        while looks != looks_max and self._ages.look():
            looks += 1
            if looks % LOGS_PER_TURN == 0:
                await self._clock.sleep(0)

    async def _remove_expired(self) -> int:
        await self._look(LOOKS_PER_ROUND_MAX)
        limit = self._clock.now_ms() - self.reserved_ms.now
        removed = 0
        looked_at: list[QueueLog] = []
        try:
            for looks, known in enumerate(self._ages.take_due(limit), 1):
                queue_log = self._logs.readable_log(known)
                if queue_log is None:
                    self._ages.put_unreadable(known)
                    continue
                looked_at.append(queue_log)
                removed += await self._remove_expired_of(queue_log, limit, removed)
                if removed >= SEGMENTS_PER_ROUND_MAX:
                    break
                if looks % LOGS_PER_TURN == 0:
                    await self._clock.sleep(0)
            else:
                self._looked_before_ms = limit
        finally:
            for queue_log in looked_at:
                self._ages.put(queue_log)
        return removed

    async def _remove_expired_of(self, queue_log: QueueLog, limit: int, before: int) -> int:
        removed = 0
        while (
            queue_log.min_offset < queue_log.max_offset
            and queue_log.segment_last_timestamp(0) < limit
            and not self._still_needs(queue_log)
            and before + removed < SEGMENTS_PER_ROUND_MAX
        ):
            if len(queue_log.segments) == 1:
                queue_log.begin_segment(self._clock.now_ms())
                self._committer.unsynced[queue_log] = None
            if not queue_log.has_spare_segment:
                break
            await self._drop(queue_log, "it is older than fileReservedTime")
            removed += 1
        return removed

    async def _remove_for_room(self) -> int:
        if not self._disk.wants_cleaning:
            return 0
        await self._look()
        # Only finished segments: what is being written is kept whatever the disk says. Logs that
        # have some were opened when their age was found out.
        oldest = [
            (queue_log.segment_last_timestamp(0), queue_log.number, queue_log)
            for queue_log in self._logs.open_logs()
            if queue_log.has_spare_segment and not self._still_needs(queue_log)
        ]
        heapq.heapify(oldest)
        removed = 0
        while oldest and removed < SEGMENTS_PER_ROUND_MAX and self._disk.wants_cleaning:
            _, number, queue_log = heapq.heappop(oldest)
            if not queue_log.has_spare_segment:
                continue  # meanwhile its topic was deleted
            await self._drop(queue_log, "the disk is over diskSpaceCleanForciblyRatio")
            removed += 1
            self._disk.check()
            if queue_log.has_spare_segment and not self._still_needs(queue_log):
                entry = (queue_log.segment_last_timestamp(0), number, queue_log)
                heapq.heappush(oldest, entry)
        return removed

    async def _drop(self, queue_log: QueueLog, reason: str) -> None:
        """Removes a segment, and returns when its space is free: the disk is judged by it."""
        size = queue_log.drop_oldest_segment()
        self._logs.dropped.notify(queue_log)
        log.info(
            "%s queue %d: removed %d bytes of records, it begins at offset %d now: %s",
            queue_log.topic,
            queue_log.queue_id,
            size,
            queue_log.min_offset,
            reason,
        )
        await self._freeing.wait()
