"""The end of old data: whole segments go, by age, and by need when the disk runs full."""

from __future__ import annotations

import heapq
import logging

from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore

log = logging.getLogger("pocketmq.store")

SEGMENTS_PER_ROUND_MAX = 64
"""Segments that one round removes, so that sends do not wait for it."""


class Retention:
    """Removes segments that are too old, and the oldest ones while the disk is too full.

    Args:
        store: whose segments.
        reserved_ms: how long a record is kept after it was stored (fileReservedTime).
    """

    def __init__(self, store: MessageStore, reserved_ms: int) -> None:
        self._store, self._reserved_ms = store, reserved_ms

    def run(self) -> int:
        """One round; returns how many segments were removed."""
        self._store.disk.check()
        return self._remove_expired() + self._remove_for_room()

    def _remove_expired(self) -> int:
        limit = self._store.clock.now_ms() - self._reserved_ms
        removed = 0
        for topic, queue_id in self._store.all_logs():
            queue_log = self._store.find_log(topic, queue_id)
            while (
                queue_log is not None
                and self._is_droppable(queue_log)
                and queue_log.segment_last_timestamp(0) < limit
            ):
                if removed >= SEGMENTS_PER_ROUND_MAX:
                    return removed
                self._drop(queue_log, "it is older than fileReservedTime")
                removed += 1
        return removed

    def _remove_for_room(self) -> int:
        if not self._store.disk.wants_cleaning:
            return 0
        oldest: list[tuple[int, int, QueueLog]] = []
        for topic, queue_id in self._store.all_logs():
            queue_log = self._store.find_log(topic, queue_id)
            # Only finished segments: what is being written is kept whatever the disk says.
            if queue_log is not None and len(queue_log.segments) > 1:
                oldest.append((queue_log.segment_last_timestamp(0), queue_log.number, queue_log))
        heapq.heapify(oldest)
        removed = 0
        while oldest and removed < SEGMENTS_PER_ROUND_MAX and self._store.disk.wants_cleaning:
            _, number, queue_log = heapq.heappop(oldest)
            self._drop(queue_log, "the disk is over diskSpaceCleanForciblyRatio")
            removed += 1
            self._store.disk.check()
            if len(queue_log.segments) > 1:
                entry = (queue_log.segment_last_timestamp(0), number, queue_log)
                heapq.heappush(oldest, entry)
        return removed

    @staticmethod
    def _is_droppable(queue_log: QueueLog) -> bool:
        """Whether the oldest segment holds records that nobody is writing beside."""
        if not queue_log.segments or queue_log.has_pending:
            return False
        return queue_log.segment_end(0)[1] > queue_log.segments[0].base_offset

    def _drop(self, queue_log: QueueLog, reason: str) -> None:
        size = queue_log.drop_oldest_segment(self._store.clock.now_ms())
        log.info(
            "%s queue %d: removed %d bytes of records, it begins at offset %d now: %s",
            queue_log.topic,
            queue_log.queue_id,
            size,
            queue_log.min_offset,
            reason,
        )
