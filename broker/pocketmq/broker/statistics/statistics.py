"""The broker's statistics under RocketMQ's names (`store/stats/BrokerStatsManager`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.counters.history import Growth, History
from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import (
    DAY,
    HOUR,
    MESSAGES,
    MINUTE,
    REQUESTS,
    SIZE,
    Traffic,
    TrafficTable,
    Window,
)
from pocketmq.broker.popping.pop_traffic import PopTraffic
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.broker.statistics.day_totals import DayTotals
from pocketmq.broker.statistics.queue_statistics import (
    QUEUE_STATS_NAMES,
    TAKEN_PER_SLICE,
    QueueStatistics,
    View,
)
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.protocol.names.names import is_system_topic
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices

SAMPLE_PERIOD_S = 1.0
RATE_SPANS_S = (10, 60, 600)
"""The windows of the rates in the broker's figures."""

TOPIC_PUT_NUMS = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS = "GROUP_GET_NUMS"
GROUP_GET_SIZE = "GROUP_GET_SIZE"
SNDBCK_PUT_NUMS = "SNDBCK_PUT_NUMS"
BROKER_PUT_NUMS = "BROKER_PUT_NUMS"
BROKER_GET_NUMS = "BROKER_GET_NUMS"
GROUP_CK_NUMS, BROKER_CK_NUMS = "GROUP_CK_NUMS", "BROKER_CK_NUMS"
GROUP_ACK_NUMS, BROKER_ACK_NUMS = "GROUP_ACK_NUMS", "BROKER_ACK_NUMS"
OF_USERS = "_WITHOUT_SYSTEM_TOPIC"

STATS_NAMES = (
    TOPIC_PUT_NUMS, TOPIC_PUT_SIZE, GROUP_GET_NUMS, GROUP_GET_SIZE, SNDBCK_PUT_NUMS,
    BROKER_PUT_NUMS, BROKER_GET_NUMS, BROKER_PUT_NUMS + OF_USERS, BROKER_GET_NUMS + OF_USERS,
    GROUP_CK_NUMS, GROUP_ACK_NUMS, BROKER_CK_NUMS, BROKER_ACK_NUMS, *QUEUE_STATS_NAMES,
)  # fmt: skip
"""Of a topic (key: its name), a group in a topic (``topic@group``), the broker (its cluster)."""


class Totals(NamedTuple):
    """Since the broker's start: messages put, pulls that found some or none, messages found."""

    put: int
    found: int
    missed: int
    transferred: int


class Statistics:
    """Computes totals and rates from the counters of the store and of the pulls.

    Args:
        cluster: the key of the broker's own statistics.
        puts, progress: counters of what is stored and what is pulled.
        logs: of the store.
        timers: timer messages that were delivered.
        pops: what is popped and acknowledged.
        clock: for the windows, and for midnight.

    Attributes:
        started_ms: when the broker began to count.
        sent_back: messages that consumers sent back, by group and topic; whoever takes them counts.
        days: what there was until today and yesterday.
    """

    def __init__(
        self,
        cluster: str,
        puts: StoreCounters,
        logs: QueueLogs,
        progress: PullProgress,
        timers: Traffic,
        pops: PopTraffic,
        clock: Clock,
    ) -> None:
        self._cluster, self._puts, self._progress = cluster, puts, progress
        self._timers, self._pops, self._clock = timers, pops, clock
        self._queues = QueueStatistics(puts, logs, progress, clock)
        self.sent_back: TrafficTable[tuple[str, str]] = TrafficTable(clock)
        self.started_ms = clock.now_ms()
        self.days = DayTotals(self.started_ms)
        self._rounds = 0
        self._history = History(RATE_SPANS_S[-1], SAMPLE_PERIOD_S, clock.monotonic(), self.totals())

    def totals(self) -> Totals:
        """What was counted since the broker's start."""
        pulls = self._progress
        return Totals(
            self._puts.total.messages,
            pulls.total.requests,
            pulls.missed,
            pulls.total.messages,
        )

    @property
    def read_max_s(self) -> float:
        """The longest time that a pull took to read."""
        return self._progress.read_max_s

    def rates(self) -> list[Growth]:
        """How the totals grew in the last 10 s, minute, and ten minutes."""
        now_s, totals = self._clock.monotonic(), self.totals()
        return [self._history.growth(now_s, totals, span_s) for span_s in RATE_SPANS_S]

    async def sample(self) -> None:
        """Takes the samples that are due, in slices; called every SAMPLE_PERIOD_S."""
        now_s, totals = self._clock.monotonic(), self.totals()
        self._history.take(now_s, totals)
        self.days.look(self._clock.now_ms(), totals.put, totals.transferred)
        self._rounds += 1
        for window in (MINUTE, HOUR, DAY):
            if self._rounds % window.step_s == 0:
                async for traffic in in_slices(self._clock, list(self._all()), TAKEN_PER_SLICE):
                    traffic.sample(now_s, window)
                await self._queues.sample(now_s, window)
        if self._rounds % MINUTE.span_s == 0:
            self._puts.times.begin_minute()

    def _all(self) -> Iterator[Traffic]:
        yield from (self._puts.total, self._progress.total, self._timers)
        yield from self._puts.topics.values()
        yield from self._progress.pulled.values()
        yield from self.sent_back.values()
        yield from self._pops.checkpoints.values()
        yield from self._pops.acknowledged.values()

    def view(self, name: str, key: str, window: Window) -> View | None:
        """A statistic up to now.

        Args:
            name: one of STATS_NAMES.
            key: a topic, ``topic@group``, the cluster's name, or as QUEUE_STATS_NAMES have it.
            window: how far to look back.

        Returns:
            None if nothing was counted under that name and key.
        """
        if name in QUEUE_STATS_NAMES:
            return self._queues.view(name, key, window)
        counters = [traffic for traffic in self._find(name, key) if traffic.messages]
        if not counters:
            return None
        place = SIZE if name.endswith("_SIZE") else MESSAGES
        growths = [traffic.growth(self._clock.monotonic(), window) for traffic in counters]
        amount = sum(growth.amounts[place] for growth in growths)
        requests = sum(growth.amounts[REQUESTS] for growth in growths)
        return View(
            amount, amount / max(growth.elapsed_s for growth in growths),
            amount / requests if requests else 0.0,
        )  # fmt: skip

    def _find(self, name: str, key: str) -> list[Traffic]:
        """The counters behind a statistic."""
        if name.endswith(OF_USERS) and key == self._cluster:
            puts, pulled = self._puts.topics, self._progress.pulled
            if name.startswith(BROKER_PUT_NUMS):
                return [t for topic, t in puts.items() if not is_system_topic(topic)]
            return [t for (_, topic), t in pulled.items() if not is_system_topic(topic)]
        if name in (BROKER_CK_NUMS, BROKER_ACK_NUMS) and key == self._cluster:
            return list(self._pop_table(name).values())
        topic, _, group = key.partition("@")
        traffic: Traffic | None = None
        if name in (TOPIC_PUT_NUMS, TOPIC_PUT_SIZE):
            traffic = self._puts.topics.get(key)
        elif name in (GROUP_GET_NUMS, GROUP_GET_SIZE):
            traffic = self._progress.pulled.get((group, topic))
        elif name in (GROUP_CK_NUMS, GROUP_ACK_NUMS):
            traffic = self._pop_table(name).get((group, topic))
        elif name == SNDBCK_PUT_NUMS:
            traffic = self.sent_back.get((group, topic))
        elif key == self._cluster and name == BROKER_PUT_NUMS:
            traffic = self._puts.total
        elif key == self._cluster and name == BROKER_GET_NUMS:
            traffic = self._progress.total
        return [] if traffic is None else [traffic]

    def _pop_table(self, name: str) -> TrafficTable[tuple[str, str]]:
        is_acks = name in (GROUP_ACK_NUMS, BROKER_ACK_NUMS)
        return self._pops.acknowledged if is_acks else self._pops.checkpoints
