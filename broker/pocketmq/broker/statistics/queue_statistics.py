"""Statistics of single queues, computed from the ends of logs and the counters of pulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.counters.history import History
from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import DAY, HOUR, MINUTE, Window
from pocketmq.broker.reading.pull_progress import PullProgress, QueuePulls
from pocketmq.broker.statistics.queue_windows import QueueWindows
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices

QUEUE_PUT_NUMS = "QUEUE_PUT_NUMS"
QUEUE_PUT_SIZE = "QUEUE_PUT_SIZE"
QUEUE_GET_NUMS = "QUEUE_GET_NUMS"
QUEUE_GET_SIZE = "QUEUE_GET_SIZE"
TOPIC_PUT_LATENCY = "TOPIC_PUT_LATENCY"
GROUP_GET_LATENCY = "GROUP_GET_LATENCY"

QUEUE_STATS_NAMES = (
    QUEUE_PUT_NUMS, QUEUE_PUT_SIZE, QUEUE_GET_NUMS, QUEUE_GET_SIZE, TOPIC_PUT_LATENCY,
    GROUP_GET_LATENCY,
)  # fmt: skip
"""Keys: ``topic@queue``, ``topic@queue@group``; of the latencies ``queue@topic[@group]``."""

_MESSAGES, _SIZE = range(2)
_PULLS, _PULLED_MESSAGES, _PULLED_SIZE, _PULL_MS = range(4)
_PULL_PLACES = {
    QUEUE_GET_NUMS: _PULLED_MESSAGES,
    QUEUE_GET_SIZE: _PULLED_SIZE,
    GROUP_GET_LATENCY: _PULL_MS,
}


class View(NamedTuple):
    """A statistic in one window: the sum, the sum per second and the sum per request."""

    total: float
    per_second: float
    average: float


TAKEN_PER_SLICE = 200
"""Samples that one slice takes: a few milliseconds."""


class QueueStatistics:
    """Computes how much came into each queue and went out of it.

    Sends do nothing for it: a log knows where it ended when the broker opened it. A request counts
    as so many as it has messages, and the latency of sends is that of all sends of the broker,
    which wait for the same commits.

    Args:
        store, progress: who count.
        clock: for the windows.
    """

    def __init__(
        self, puts: StoreCounters, logs: QueueLogs, progress: PullProgress, clock: Clock
    ) -> None:
        self._puts, self._logs, self._progress, self._clock = puts, logs, progress, clock
        self._put_windows: QueueWindows[tuple[str, int]] = QueueWindows()
        self._pulls: QueueWindows[tuple[str, str, int]] = QueueWindows()
        self._seen: dict[tuple[object, ...], int] = {}
        now_s = clock.monotonic()
        self._put_times = {
            window: History(*window, now_s, self._put_time()) for window in (MINUTE, HOUR, DAY)
        }

    def _put_time(self) -> tuple[int, int]:
        times = self._puts.times
        return times.count, int(times.total_s * 1000)

    # -- sampling -----------------------------------------------------------------------------

    async def sample(self, now_s: float, window: Window) -> None:
        """Samples, in slices, the queues of topics with traffic since the window's last sample."""
        self._put_times[window].take(now_s, self._put_time())
        puts = self._puts.topics
        moved = {t for t, traffic in puts.items() if self._moved(window, traffic.messages, t)}
        logs = self._logs.open_logs() if moved else ()
        async for queue_log in in_slices(self._clock, logs, TAKEN_PER_SLICE):
            if queue_log.topic in moved:
                self._put_windows.take(
                    now_s, window, _key(queue_log), _end(queue_log), _begin(queue_log)
                )
        moved_pulls = [
            (group, topic, queue_id, queue)
            for (group, topic), pulled in self._progress.pulled.items()
            if self._moved(window, pulled.messages, group, topic)
            for queue_id, queue in pulled.queues.items()
        ]
        async for group, topic, queue_id, queue in in_slices(
            self._clock, moved_pulls, TAKEN_PER_SLICE
        ):
            self._pulls.take(now_s, window, (group, topic, queue_id), queue.amounts())
        if window is DAY:
            self._forget()

    def _moved(self, window: Window, messages: int, *key: str) -> bool:
        place = (window, *key)
        seen = self._seen.get(place, 0)
        self._seen[place] = messages
        return messages != seen

    def _forget(self) -> None:
        """Drops the samples of queues and topics that no longer exist."""
        self._put_windows.keep({(known.topic, known.queue_id) for known in self._logs.table})
        self._pulls.keep(set(self._pulled_queues()))
        there = {*self._progress.pulled, *((topic,) for topic in self._puts.topics)}
        self._seen = {key: n for key, n in self._seen.items() if key[1:] in there}

    def _pulled_queues(self) -> Iterator[tuple[str, str, int]]:
        for key, pulled in self._progress.pulled.items():
            for queue_id in pulled.queues:
                yield (*key, queue_id)

    # -- looking ------------------------------------------------------------------------------

    def view(self, name: str, key: str, window: Window) -> View | None:
        """A statistic up to now; None if nothing was counted under that name and key.

        Args:
            name: one of QUEUE_STATS_NAMES.
            key: as they have it.
            window: how far to look back.
        """
        parts = key.split("@")
        if name in (TOPIC_PUT_LATENCY, GROUP_GET_LATENCY) and len(parts) > 1:
            parts[:2] = parts[1::-1]
        if len(parts) != (3 if name in _PULL_PLACES else 2) or not parts[1].isdecimal():
            return None
        topic, queue_id = parts[0], int(parts[1])
        if name in _PULL_PLACES:
            pulled = self._progress.pulled.get((parts[2], topic))
            queue = None if pulled is None else pulled.queues.get(queue_id)
            if queue is None or not queue.requests:
                return None
            return self._view_pulls(name, (parts[2], topic, queue_id), queue, window)
        queue_log = self._logs.find_log(topic, queue_id)
        if queue_log is None:
            return None
        if _key(queue_log) not in self._put_windows and _end(queue_log) == _begin(queue_log):
            return None
        return self._view_puts(name, queue_log, window)

    def _view_pulls(
        self, name: str, key: tuple[str, str, int], queue: QueuePulls, window: Window
    ) -> View | None:
        now_s = self._clock.monotonic()
        growth = self._pulls.growth(now_s, window, key, queue.amounts())
        if growth is None:
            return None
        place = _PULL_PLACES[name]
        amount, requests = growth.amounts[place], growth.amounts[_PULLS]
        return View(amount, growth.per_second(place), amount / requests if requests else 0.0)

    def _view_puts(self, name: str, queue_log: QueueLog, window: Window) -> View | None:
        now_s = self._clock.monotonic()
        growth = self._put_windows.growth(
            now_s, window, _key(queue_log), _end(queue_log), _begin(queue_log)
        )
        if growth is None:
            return None
        messages, size = growth.amounts
        if name == QUEUE_PUT_SIZE:
            return View(size, growth.per_second(_SIZE), size / messages if messages else 0.0)
        if name == QUEUE_PUT_NUMS:
            return View(messages, growth.per_second(_MESSAGES), 1.0 if messages else 0.0)
        count, elapsed_ms = self._put_times[window].growth(now_s, self._put_time()).amounts
        average_ms = elapsed_ms / count if count else 0.0
        return View(
            messages * average_ms, growth.per_second(_MESSAGES) * average_ms,
            average_ms if messages else 0.0,
        )  # fmt: skip


def _key(queue_log: QueueLog) -> tuple[str, int]:
    return queue_log.topic, queue_log.queue_id


def _end(queue_log: QueueLog) -> tuple[int, int]:
    """Messages and bytes that the log ever had: the same after it was closed and opened again."""
    return queue_log.end_offset, queue_log.end_position


def _begin(queue_log: QueueLog) -> tuple[int, int]:
    """What these were when the broker opened the log."""
    return queue_log.opened_offset, queue_log.opened_position
