"""Removes old data: whole segments, by age, by size, and by need when the disk runs full."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable, Iterable, Mapping

from pocketmq.broker.store.kept import Kept
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log_ages import Limits, LogAges
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.topics import RETENTION_BYTES
from pocketmq.runtime.live import Live

log = logging.getLogger("pocketmq.store")

SEGMENTS_PER_ROUND_MAX = 64
"""Segments that one round removes, so that sends do not wait for it."""

LOOKS_PER_ROUND_MAX = 500
"""Logs whose age one round finds out; after a start none is known."""

LOGS_PER_TURN = 50
"""Logs that are looked at between two turns of the loop."""

_NONE_KEPT: Mapping[str, Kept] = {}


class Retention:
    """Removes segments that are too old, and the oldest ones of what is too large.

    Too large is a topic with more bytes than its attribute allows, and all of them together while
    the disk is too full.

    A queue always keeps a segment, if need be an empty one: its header tells at which offset the
    queue goes on. So the last segment of a queue is removed a round after its successor was
    created, when that is safely on the disk.

    Args:
        store: whose segments.
        reserved_ms: how long a record is kept after it was stored (fileReservedTime).
        still_needs: whether the oldest segment of a log must stay, however old or large it is.
        kept: the topics that say themselves what is kept of them, by name; the same mapping again
            while nothing has changed.

    Attributes:
        removed_count: how many segments were removed.
    """

    def __init__(
        self,
        store: MessageStore,
        reserved_ms: Live[int],
        still_needs: Callable[[QueueLog], bool] = lambda _: False,
        kept: Callable[[], Mapping[str, Kept]] = lambda: _NONE_KEPT,
    ) -> None:
        self._logs, self._committer, self._clock = store.logs, store.committer, store.clock
        self._disk, self._freeing = store.disk, store.files.freeing
        self.reserved_ms, self._still_needs = reserved_ms, still_needs
        self._ages = LogAges(store.logs, store.clock)
        self._looked_before = Limits(0, 0)
        self._kept_now = kept
        self._kept = _NONE_KEPT
        self.removed_count = 0
        self._running = asyncio.Lock()

    async def run(self) -> int:
        """Runs one round; returns how many segments were removed."""
        async with self._running:
            self._disk.check()
            self._follow_topics()
            removed = await self._remove_expired()
            for topic, kept in self._kept.items():
                if kept.size is not None and removed < SEGMENTS_PER_ROUND_MAX:
                    removed += await self._remove_over(topic, kept.size)
            return removed + await self._remove_for_room()

    def _follow_topics(self) -> None:
        """Takes what topics say of themselves now."""
        kept = self._kept_now()
        if kept is not self._kept:
            self._kept = kept
            times = {topic: k.time_ms for topic, k in kept.items() if k.time_ms is not None}
            self._ages.set_own_times(times)

    def _limits(self) -> Limits:
        now_ms = self._clock.now_ms()
        return Limits(now_ms - self.reserved_ms.now, now_ms)

    def idle_s(self) -> float:
        """Returns for how many seconds rounds find nothing to remove, if nothing else happens.

        A log that a round has left as it is waits for a delivery or for a checkpoint.
        """
        if self._disk.full_reason is not None or self._disk.wants_cleaning:
            return 0.0
        if self._kept_now() is not self._kept:
            return 0.0
        if any(k.size is not None and self._has_spares(topic) for topic, k in self._kept.items()):
            return 0.0  # messages may have come since the last round
        return self._ages.idle_ms(self._limits(), self._looked_before) / 1000

    async def _look(self, looks_max: int | None = None) -> None:
        """Finds out the ages of logs that are new, or older than the start."""
        looks = 0
        while looks != looks_max and self._ages.look():
            looks += 1
            if looks % LOGS_PER_TURN == 0:
                await self._clock.sleep(0)

    async def _remove_expired(self) -> int:
        await self._look(LOOKS_PER_ROUND_MAX)
        limits = self._limits()
        removed = 0
        looked_at: list[QueueLog] = []
        try:
            for looks, known in enumerate(self._ages.take_due(limits), 1):
                queue_log = self._logs.readable_log(known)
                if queue_log is None:
                    self._ages.put_unreadable(known)
                    continue
                looked_at.append(queue_log)
                removed += await self._remove_expired_of(queue_log, limits, removed)
                if removed >= SEGMENTS_PER_ROUND_MAX:
                    break
                if looks % LOGS_PER_TURN == 0:
                    await self._clock.sleep(0)
            else:
                self._looked_before = limits
        finally:
            for queue_log in looked_at:
                self._ages.put(queue_log)
        return removed

    async def _remove_expired_of(self, queue_log: QueueLog, limits: Limits, before: int) -> int:
        own_ms = self._kept.get(queue_log.topic, Kept()).time_ms
        limit_ms = limits.stored_ms if own_ms is None else limits.now_ms - own_ms
        setting = "fileReservedTime" if own_ms is None else "the topic's reserve.time"
        removed = 0
        while (
            queue_log.min_offset < queue_log.max_offset
            and queue_log.segment_last_timestamp(0) < limit_ms
            and not self._still_needs(queue_log)
            and before + removed < SEGMENTS_PER_ROUND_MAX
        ):
            if len(queue_log.segments) == 1:
                queue_log.begin_segment(self._clock.now_ms())
                self._committer.unsynced[queue_log] = None
            if not queue_log.has_spare_segment:
                break
            await self._drop(queue_log, f"it is older than {setting}")
            removed += 1
        return removed

    def _has_spares(self, topic: str) -> bool:
        """Whether a log of a topic has a segment that may go; such logs are open."""
        known = (self._logs.table.by_number(n) for n in self._logs.table.numbers(topic))
        logs = (self._logs.readable_log(k) for k in known if k and not self._logs.is_at_rest(k))
        return any(queue_log.has_spare_segment for queue_log in logs if queue_log)

    async def _remove_over(self, topic: str, size_max: int) -> int:
        """Removes the oldest finished segments of a topic while it holds more bytes."""
        if not self._has_spares(topic):
            return 0
        logs = []
        for looks, number in enumerate(self._logs.table.numbers(topic), 1):
            known = self._logs.table.by_number(number)
            if known is not None and (queue_log := self._logs.readable_log(known)) is not None:
                logs.append(queue_log)
            if looks % LOGS_PER_TURN == 0:
                await self._clock.sleep(0)
        return await self._remove_oldest(
            logs,
            lambda: sum(queue_log.size for queue_log in logs) > size_max,
            f"the topic holds more than its {RETENTION_BYTES}",
        )

    async def _remove_for_room(self) -> int:
        if not self._disk.wants_cleaning:
            return 0
        await self._look()

        def is_too_full() -> bool:
            self._disk.check()
            return self._disk.wants_cleaning

        # Logs with finished segments were opened when their age was found out.
        reason = "the disk is over diskSpaceCleanForciblyRatio"
        return await self._remove_oldest(self._logs.open_logs(), is_too_full, reason)

    async def _remove_oldest(
        self, logs: Iterable[QueueLog], is_too_much: Callable[[], bool], reason: str
    ) -> int:
        """Removes the oldest finished segments of some logs, one by one, while it is too much.

        What is being written is kept whatever the limits say.
        """
        oldest = [
            (queue_log.segment_last_timestamp(0), queue_log.number, queue_log)
            for queue_log in logs
            if queue_log.has_spare_segment and not self._still_needs(queue_log)
        ]
        heapq.heapify(oldest)
        removed = 0
        while oldest and removed < SEGMENTS_PER_ROUND_MAX and is_too_much():
            _, number, queue_log = heapq.heappop(oldest)
            if not queue_log.has_spare_segment:
                continue  # meanwhile its topic was deleted
            await self._drop(queue_log, reason)
            removed += 1
            if queue_log.has_spare_segment and not self._still_needs(queue_log):
                entry = (queue_log.segment_last_timestamp(0), number, queue_log)
                heapq.heappush(oldest, entry)
        return removed

    async def _drop(self, queue_log: QueueLog, reason: str) -> None:
        """Removes a segment, and returns when its space is free: the disk is judged by it."""
        size = queue_log.drop_oldest_segment()
        self.removed_count += 1
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
