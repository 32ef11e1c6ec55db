"""How far each group is behind in each of its topics (`ConsumerLagCalculator`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import QueueLog

LOOKS_MAX = 1000
"""Messages that one scrape looks at for their age; beyond them ages are those of other queues."""

LOOKS_OF_PAIR_MAX = 16
"""Queues of a group in a topic whose oldest messages are looked at: those with the most."""

WORK_OF_A_LOOK = 20
"""A look at a message may open a log, and costs as much as so many lines."""


WORK_MAX = 250
"""Queues of one topic that are gone over before others may have their turn."""


class Lag(NamedTuple):
    """How far a group is behind in a topic.

    Attributes:
        group, topic: whose.
        lag: messages that are not acknowledged.
        ready: those of them that the group was not given yet.
        in_flight: those that it was given.
        lag_ms, queueing_ms: age of the oldest message of `lag`, and of `ready`; 0 without any.
    """

    group: str
    topic: str
    lag: int
    ready: int
    in_flight: int
    lag_ms: int
    queueing_ms: int


class _QueueLag(NamedTuple):
    lag: int
    committed: int
    given: int
    queue_id: int


class Lags:
    """Computes the lags of one scrape.

    Args:
        parts: of the broker.

    Attributes:
        rows: the lags, once `compute` is through.
    """

    def __init__(self, parts: BrokerParts) -> None:
        self._parts, self._store = parts, parts.data.store
        self._looks = LOOKS_MAX
        self.rows: list[Lag] = []

    def compute(self) -> Iterator[int]:
        """Fills `rows`; yields the work it has done, see `Exposition.write`."""
        end_offset = self._store.end_offset  # most queues have nothing behind: plain steps
        for group, topic, offsets in list(self._parts.data.offsets):
            config = self._parts.data.topics.get(topic)
            if config is None:
                continue
            queues: list[_QueueLag] = []
            in_flight = work = 0
            read_queue_nums = config.read_queue_nums
            for queue_id in self._store.queue_ids(topic):
                committed = offsets.get(queue_id, 0)
                lag = (end_offset(topic, queue_id) or 0) - committed
                if lag > 0 and queue_id < read_queue_nums:
                    queue, given = self._queue(group, topic, queue_id, committed, lag)
                    queues.append(queue)
                    in_flight += given
                work += 1
                if work == WORK_MAX:
                    yield work
                    work = 0
            yield work
            looked = self._looks
            row = self._row(group, topic, queues, in_flight)
            yield 1 + WORK_OF_A_LOOK * (looked - self._looks)
            self.rows.append(row)

    def _queue(
        self, group: str, topic: str, queue_id: int, committed: int, lag: int
    ) -> tuple[_QueueLag, int]:
        """Returns the lag of a queue, and its messages in flight."""
        end = committed + lag
        popped = self._parts.popping.queues.get(group, topic, queue_id)
        if popped is not None:
            given = min(popped.next_offset, end)
            return _QueueLag(lag, committed, given, queue_id), popped.in_flight.count
        given = min(max(committed, self._parts.progress.offset(group, topic, queue_id)), end)
        return _QueueLag(lag, committed, given, queue_id), given - committed

    def _row(self, group: str, topic: str, queues: list[_QueueLag], in_flight: int) -> Lag:
        """Sums up the queues, and looks at the oldest messages of those that lack the most."""
        now_ms = self._parts.clock.now_ms()
        queues.sort(reverse=True)
        ready = lag = 0
        oldest_ms = oldest_ready_ms = now_ms
        for number, queue in enumerate(queues):
            committed, given, expired = queue.committed, queue.given, 0
            end = queue.committed + queue.lag
            if number < LOOKS_OF_PAIR_MAX and self._looks > 0:
                self._looks -= 1
                queue_log = self._readable(topic, queue.queue_id)
                if queue_log is not None:
                    low = queue_log.min_offset
                    expired = max(low - committed, 0)
                    committed, given = max(committed, low), max(given, low)
                    oldest_ms = min(oldest_ms, _stored_ms(queue_log, committed, now_ms))
                    oldest_ready_ms = min(oldest_ready_ms, _stored_ms(queue_log, given, now_ms))
            lag += queue.lag - expired
            ready += max(end - given, 0)
        return Lag(
            group, topic, lag, ready, in_flight, now_ms - oldest_ms, now_ms - oldest_ready_ms
        )

    def _readable(self, topic: str, queue_id: int) -> QueueLog | None:
        known = self._store.logs.table.get(topic, queue_id)
        return None if known is None else self._store.logs.readable_log(known)


def _stored_ms(queue_log: QueueLog, offset: int, now_ms: int) -> int:
    """When a message was stored; now if it is not there or cannot be read."""
    if not queue_log.min_offset <= offset < queue_log.max_offset:
        return now_ms
    try:
        return min(queue_log.timestamp_at(offset), now_ms)
    except (OSError, StoreError):  # the store tells of damage itself
        return now_ms
