"""Foretells when the disk will have no room, from how fast it fills."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pocketmq.broker.counters.history import History
from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import DAY, HOUR, SIZE, Window
from pocketmq.broker.store.disk.disk import DiskGuard
from pocketmq.broker.store.kept import Kept
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.runtime.slices import in_slices

LOOK_PERIOD_S = 60.0
"""From one look at the disk to the next."""

MEASURED_S_MIN = 600.0
"""A rate of a shorter time foretells nothing."""

CARRIED_ON_MAX = 24
"""A rate is carried on for so many times the time that it was measured in."""

TOPICS_PER_SLICE = 200


class Stop(NamedTuple):
    """The growth of a topic ends when retention begins to remove as much as is stored."""

    after_s: float
    per_second: float


class Outlook(NamedTuple):
    """What the disk comes to if it fills as it did.

    Attributes:
        measured_s: the time in which the growth was measured.
        growth: by how many bytes more of the disk were used after it.
        topic: of which most was stored; empty if nothing was.
        topic_size: bytes stored of that topic meanwhile.
        clean_s: after so long the oldest messages go before their time; infinite: never.
        full_s: after so long sends are refused, unless enough goes before.
    """

    measured_s: float
    growth: int
    topic: str
    topic_size: int
    clean_s: float
    full_s: float


class DiskForecast:
    """Looks at the disk now and then, and carries the growth on of an hour or of a day.

    Growth is that of all that the disk holds, so what retention removes is in it, and also what
    others write. What retention does not remove yet, but will, is taken off: a topic of which
    nothing was removed so far grows until its first messages are too old, or it is too large.

    Args:
        disk: to look at.
        counters: of what is stored.
        logs: tell since when topics have messages.
        reserved_ms: how long messages are kept.
        kept: tells what a topic says of it.
        clock: of the broker.

    Attributes:
        outlook: what the last look foretold; None while nothing is foretold.
    """

    def __init__(
        self,
        disk: DiskGuard,
        counters: StoreCounters,
        logs: QueueLogs,
        reserved_ms: Live[int],
        kept: Callable[[str], Kept],
        clock: Clock,
    ) -> None:
        self._disk, self._counters, self._logs, self._clock = disk, counters, logs, clock
        self._reserved_ms, self._kept = reserved_ms, kept
        self._began_s = clock.monotonic()
        self._histories = {
            window: History(*window, self._began_s, (disk.use.used,)) for window in (HOUR, DAY)
        }
        self._looks = 0
        self.outlook: Outlook | None = None

    async def look(self) -> None:
        """Measures the disk, and foretells anew; called every LOOK_PERIOD_S."""
        self._looks += 1
        now_s, used = self._clock.monotonic(), self._disk.look().used
        for window, history in self._histories.items():
            if self._looks % round(window.step_s / LOOK_PERIOD_S) == 0:
                history.take(now_s, (used,))
        outlooks = [await self._foretell(window, now_s, used) for window in self._histories]
        foretold = [outlook for outlook in outlooks if outlook is not None]
        self.outlook = min(foretold, key=lambda o: min(o.clean_s, o.full_s), default=None)

    async def _foretell(self, window: Window, now_s: float, used: int) -> Outlook | None:
        growth = self._histories[window].growth(now_s, (used,))
        measured_s = min(growth.elapsed_s, now_s - self._began_s)
        room = min(self._disk.room_to_clean, self._disk.room_to_refusal)
        rate, ahead_s = growth.per_second(0), measured_s * CARRIED_ON_MAX
        if measured_s < MEASURED_S_MIN or rate <= 0 or room / rate > ahead_s:
            return None
        stops, largest, size_max = [], "", 0
        topics = list(self._counters.topics.items())
        async for topic, traffic in in_slices(self._clock, topics, TOPICS_PER_SLICE):
            stored = traffic.growth(now_s, window)
            if stored.amounts[SIZE] > size_max:
                largest, size_max = topic, stored.amounts[SIZE]
            if stored.amounts[SIZE]:
                stops.append(Stop(self._stops_after_s(topic, stored.per_second(SIZE)),
                                  stored.per_second(SIZE)))  # fmt: skip
        clean_s = seconds_until(self._disk.room_to_clean, rate, stops)
        full_s = seconds_until(self._disk.room_to_refusal, rate, stops)
        if min(clean_s, full_s) > ahead_s:
            return None
        return Outlook(measured_s, growth.amounts[0], largest, size_max, clean_s, full_s)

    def _stops_after_s(self, topic: str, per_second: float) -> float:
        """Returns when retention begins to remove what a topic has; infinite if it has begun."""
        kept = self._kept(topic)
        reserved_ms = self._reserved_ms.now if kept.time_ms is None else kept.time_ms
        now_ms, size, oldest_ms = self._clock.now_ms(), 0, math.inf
        for number in self._logs.table.numbers(topic):
            known = self._logs.table.by_number(number)
            if known is None or self._logs.is_at_rest(known):
                continue
            queue_log = self._logs.readable_log(known)
            if queue_log is None or not queue_log.segments:
                continue
            if queue_log.min_offset:
                return math.inf
            size += queue_log.size
            is_finished = len(queue_log.segments) > 1
            oldest_ms = min(
                oldest_ms, queue_log.segment_last_timestamp(0) if is_finished else now_ms
            )
        by_time_s = (oldest_ms + reserved_ms - now_ms) / 1000
        by_size_s = math.inf if kept.size is None else (kept.size - size) / per_second
        return max(0.0, min(by_time_s, by_size_s))

    def figures(self) -> dict[str, object]:
        """Returns the outlook as figures of the broker; RocketMQ has none."""
        outlook = self.outlook
        if outlook is None:
            return {}
        now_ms = self._clock.now_ms()
        times = {"diskCleanTimestamp": outlook.clean_s, "diskFullTimestamp": outlook.full_s}
        return {
            "diskGrowthTimeMs": round(outlook.measured_s * 1000),
            "diskGrowthSize": outlook.growth,
            "diskGrowthTopic": outlook.topic,
            "diskGrowthTopicSize": outlook.topic_size,
            **{
                name: now_ms + round(seconds * 1000)
                for name, seconds in times.items()
                if math.isfinite(seconds)
            },
        }


def seconds_until(room: float, per_second: float, stops: Iterable[Stop]) -> float:
    """Returns after how many seconds so many bytes have come; infinite if they never do.

    Args:
        room: bytes.
        per_second: bytes that come at first.
        stops: growth that ends later.
    """
    passed_s = 0.0
    for after_s, less in sorted(stop for stop in stops if math.isfinite(stop.after_s)):
        if per_second > 0 and passed_s + room / per_second <= after_s:
            break
        room -= per_second * (after_s - passed_s)
        passed_s = after_s
        per_second -= less
    return passed_s + max(0.0, room) / per_second if per_second > 0 else math.inf
