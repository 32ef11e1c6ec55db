"""Orders the logs by the age of their oldest segments, so that retention looks only at due ones."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import has_one_segment
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock


class Limits(NamedTuple):
    """Which segments are too old.

    Attributes:
        stored_ms: those that ended before this time.
        now_ms: of topics with a time of their own those whose time was over before this one.
    """

    stored_ms: int
    now_ms: int


class LogAges:
    """Keeps for each log a time before which its oldest segment cannot have ended.

    A segment's last record only gets younger while it is written, so a log whose time has come is
    looked at once more, and nothing has to be noted when messages are stored. Logs of topics with a
    time of their own are kept apart, by the time when theirs is over: so the broker's time may
    change without any being looked at.

    Args:
        logs: those of the store.
        clock: for logs without records.
    """

    def __init__(self, logs: QueueLogs, clock: Clock) -> None:
        self._logs, self._clock = logs, clock
        self._heap: list[tuple[int, int]] = []
        self._own_heap: list[tuple[int, int]] = []
        self._own_times: Mapping[str, int] = {}
        self._unseen: list[int] = []

    def set_own_times(self, times: Mapping[str, int]) -> None:
        """Replaces the times of topics that have their own, in milliseconds.

        The logs of topics whose time changes are looked at anew.
        """
        before, self._own_times = self._own_times, times
        topics = {t for t in before.keys() | times.keys() if before.get(t) != times.get(t)}
        numbers = {number for topic in topics for number in self._logs.table.numbers(topic)}
        self._unseen += self._logs.table.take_new()
        numbers.difference_update(self._unseen)
        if numbers:
            for heap in (self._heap, self._own_heap):
                heap[:] = [entry for entry in heap if entry[1] not in numbers]
                heapq.heapify(heap)
            self._unseen += numbers

    def look(self) -> bool:
        """Finds out the age of one log that was entered since the last call; False without any."""
        self._unseen += self._logs.table.take_new()
        if not self._unseen:
            return False
        known = self._logs.table.by_number(self._unseen.pop())
        if known is None:
            return True
        checkpoint = known.checkpoint
        if (
            checkpoint is not None
            and self._logs.is_at_rest(known)
            and has_one_segment(self._logs.directory_of(known))
        ):
            self._enter(known.topic, known.number, checkpoint.timestamp)
        elif (queue_log := self._logs.readable_log(known)) is not None:
            self.put(queue_log)
        else:
            self._enter(known.topic, known.number, 0)
        return True

    def _enter(self, topic: str, number: int, oldest_ms: int) -> None:
        own_ms = self._own_times.get(topic)
        if own_ms is None:
            heapq.heappush(self._heap, (oldest_ms, number))
        else:
            heapq.heappush(self._own_heap, (oldest_ms + own_ms, number))

    def take_due(self, limits: Limits) -> Iterator[KnownLog]:
        """Yields the logs whose time is before a limit, the oldest first; `put` them back
        afterwards.
        """
        for heap, limit_ms in zip((self._heap, self._own_heap), limits, strict=True):
            while heap and heap[0][0] < limit_ms:
                known = self._logs.table.by_number(heapq.heappop(heap)[1])
                if known is not None:
                    yield known

    def idle_ms(self, limits: Limits, looked_before: Limits) -> float:
        """Returns for how long no log becomes due that was not due before, if all are known.

        Args:
            limits: now.
            looked_before: the limits before which all logs were looked at.
        """
        if self._unseen or self._logs.table.has_new:
            return 0.0
        waits = (
            time_ms + 1 - limit_ms
            for heap, limit_ms, before_ms in zip(
                (self._heap, self._own_heap), limits, looked_before, strict=True
            )
            for time_ms, _ in heap
            if time_ms >= min(limit_ms, before_ms)
        )
        return max(0.0, min(waits, default=math.inf))

    def put(self, queue_log: QueueLog) -> None:
        """Enters the age of a log."""
        if queue_log.min_offset < queue_log.max_offset:
            oldest_ms = queue_log.segment_last_timestamp(0)
        else:
            oldest_ms = self._clock.now_ms()
        self._enter(queue_log.topic, queue_log.number, oldest_ms)

    def put_unreadable(self, known: KnownLog) -> None:
        """Has a log that cannot be read now looked at again later."""
        self._unseen.insert(0, known.number)
