"""The end of old data: whole segments go, by age, and by need when the disk runs full."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable

from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore

log = logging.getLogger("pocketmq.store")

SEGMENTS_PER_ROUND_MAX = 64
"""Segments that one round removes, so that sends do not wait for it."""


class Retention:
    """Removes segments that are too old, and the oldest ones while the disk is too full.

    A queue always keeps a segment, if need be an empty one: its header tells at which offset the
    queue goes on. So the last segment of a queue is removed a round after its successor was begun,
    when that is safely on the disk.

    Args:
        store: whose segments.
        reserved_ms: how long a record is kept after it was stored (fileReservedTime); may be
            changed at any time.
        still_needs: whether the oldest segment of a log must stay, however old or large it is.
    """

    def __init__(
        self,
        store: MessageStore,
        reserved_ms: int,
        still_needs: Callable[[QueueLog], bool] = lambda _: False,
    ) -> None:
        self._store, self.reserved_ms = store, reserved_ms
        self._still_needs = still_needs

    def run(self) -> int:
        """One round; returns how many segments were removed."""
        self._store.disk.check()
        return self._remove_expired() + self._remove_for_room()

    def _remove_expired(self) -> int:
        limit = self._store.clock.now_ms() - self.reserved_ms
        removed = 0
        for queue_log in self._store.readable_logs():
            while (
                queue_log.min_offset < queue_log.max_offset
                and queue_log.segment_last_timestamp(0) < limit
                and not self._still_needs(queue_log)
            ):
                if len(queue_log.segments) == 1:
                    self._store.begin_segment(queue_log)
                if not queue_log.has_spare_segment:
                    break
                if removed >= SEGMENTS_PER_ROUND_MAX:
                    return removed
                self._drop(queue_log, "it is older than fileReservedTime")
                removed += 1
        return removed

    def _remove_for_room(self) -> int:
        if not self._store.disk.wants_cleaning:
            return 0
        # Only finished segments: what is being written is kept whatever the disk says.
        oldest = [
            (queue_log.segment_last_timestamp(0), queue_log.number, queue_log)
            for queue_log in self._store.readable_logs()
            if queue_log.has_spare_segment and not self._still_needs(queue_log)
        ]
        heapq.heapify(oldest)
        removed = 0
        while oldest and removed < SEGMENTS_PER_ROUND_MAX and self._store.disk.wants_cleaning:
            _, number, queue_log = heapq.heappop(oldest)
            self._drop(queue_log, "the disk is over diskSpaceCleanForciblyRatio")
            removed += 1
            self._store.disk.check()
            if queue_log.has_spare_segment and not self._still_needs(queue_log):
                entry = (queue_log.segment_last_timestamp(0), number, queue_log)
                heapq.heappush(oldest, entry)
        return removed

    def _drop(self, queue_log: QueueLog, reason: str) -> None:
        size = queue_log.drop_oldest_segment()
        log.info(
            "%s queue %d: removed %d bytes of records, it begins at offset %d now: %s",
            queue_log.topic,
            queue_log.queue_id,
            size,
            queue_log.min_offset,
            reason,
        )
