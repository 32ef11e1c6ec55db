"""Orders the logs by the age of their oldest segments, so that retention looks only at due ones."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator

from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import has_one_segment
from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock


class LogAges:
    """Keeps for each log a time before which its oldest segment cannot have ended.

    A segment's last record only gets younger while it is written, so a log whose time has come is
    looked at once more, and nothing has to be noted when messages are stored.

    Args:
        logs: those of the store.
        clock: for logs without records.
    """

    def __init__(self, logs: QueueLogs, clock: Clock) -> None:
        self._logs, self._clock = logs, clock
        self._heap: list[tuple[int, int]] = []
        self._unseen: list[int] = []

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
            heapq.heappush(self._heap, (checkpoint.timestamp, known.number))
        elif (queue_log := self._logs.readable_log(known)) is not None:
            self.put(queue_log)
        else:
            heapq.heappush(self._heap, (0, known.number))
        return True

    def take_due(self, limit_ms: int) -> Iterator[KnownLog]:
        """Yields the logs whose time is before a limit, the oldest first; `put` them back
        afterwards.
        """
        while self._heap and self._heap[0][0] < limit_ms:
            known = self._logs.table.by_number(heapq.heappop(self._heap)[1])
            if known is not None:
                yield known

    def next_ms(self, limit_ms: int) -> float:
        """Returns the earliest time of a log that is not before a limit, if all are known."""
        if self._unseen or self._logs.table.has_new:
            return -math.inf
        return min((time_ms for time_ms, _ in self._heap if time_ms >= limit_ms), default=math.inf)

    def put(self, queue_log: QueueLog) -> None:
        """Enters the age of a log."""
        if queue_log.min_offset < queue_log.max_offset:
            oldest_ms = queue_log.segment_last_timestamp(0)
        else:
            oldest_ms = self._clock.now_ms()
        heapq.heappush(self._heap, (oldest_ms, queue_log.number))

    def put_unreadable(self, known: KnownLog) -> None:
        """Has a log that cannot be read now looked at again later."""
        self._unseen.insert(0, known.number)
