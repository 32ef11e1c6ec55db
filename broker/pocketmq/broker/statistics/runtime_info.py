"""The broker's figures under RocketMQ's names, as tools and dashboards read them (28)."""

from __future__ import annotations

from pocketmq.auth.rates import RateLimits
from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import MESSAGES, MINUTE
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.statistics.back_pressure import BackPressure
from pocketmq.broker.statistics.disk_forecast import DiskForecast
from pocketmq.broker.statistics.statistics import RATE_SPANS_S, Statistics
from pocketmq.broker.statistics.store_figures import StoreFigures
from pocketmq.protocol.bodies.brokers import RELEASE_FIGURE
from pocketmq.protocol.codes import Version
from pocketmq.protocol.names import names
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import Clock

_EXECUTORS = ("send", "pull", "litePull", "query", "ack")
"""RocketMQ has a queue of requests for each of them; here requests never queue."""


class RuntimeInfo:
    """Gathers the figures for each request.

    Args:
        store: the figures of the store.
        forecast: of the disk.
        schedule: of the broker; None for a follower, which delivers nothing.
        polling: of the broker.
        counters, statistics: the rates and totals.
        back_pressure: the limits that hold clients up.
        rate_limits: what clients may ask for in a second.
        clock: for the broker's age.
    """

    def __init__(
        self,
        store: StoreFigures,
        forecast: DiskForecast,
        schedule: Schedule | None,
        polling: LongPolling,
        counters: StoreCounters,
        statistics: Statistics,
        back_pressure: BackPressure,
        rate_limits: RateLimits,
        clock: Clock,
    ) -> None:
        self._back_pressure, self._rate_limits = back_pressure, rate_limits
        self._store, self._schedule, self._polling = store, schedule, polling
        self._forecast = forecast
        self._counters, self._statistics, self._clock = counters, statistics, clock

    def figures(self) -> dict[str, object]:
        """Returns all figures by name."""
        return {
            **self._identity(),
            **self._puts_and_gets(),
            **self._rates(),
            **self._days(),
            **self._store.figures(),
            **self._forecast.figures(),
            **self._queues(),
            **self._back_pressure.figures(),
            "requestsRefusedByRate": self._rate_limits.refused_count,
            **self._delays(),
        }

    def _identity(self) -> dict[str, object]:
        seconds = max(self._clock.now_ms() - self._statistics.started_ms, 0) // 1000
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        return {
            "brokerActive": "true",
            "brokerVersion": int(Version.V5_5_0),
            "brokerVersionDesc": "V5_5_0",
            RELEASE_FIGURE: VERSION,
            "bootTimestamp": self._statistics.started_ms,
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
            "startAcceptSendRequestTimeStamp": 0,
        }

    def _puts_and_gets(self) -> dict[str, object]:
        puts = self._counters
        times = puts.times
        return {
            "putMessageTimesTotal": puts.total.messages,
            "putMessageSizeTotal": puts.total.size,
            "putMessageAverageSize": puts.total.size / max(1, puts.total.messages),
            "putMessageFailedTimes": puts.failed_count,
            "putMessageEntireTimeMax": times.max_ms,
            "putMessageDistributeTime": times.distribution(),
            "putLatency99": f"{times.percentile_ms(0.99):.2f}",
            "putLatency999": f"{times.percentile_ms(0.999):.2f}",
            "getMessageEntireTimeMax": int(self._statistics.read_max_s * 1000),
        }

    def _rates(self) -> dict[str, object]:
        rates = self._statistics.rates()

        def spans(*places: int) -> str:
            sums = (sum(rate.per_second(place) for place in places) for rate in rates)
            return " ".join(str(round(value, 3)) for value in sums)

        assert len(rates) == len(RATE_SPANS_S)
        put, found, missed, transferred = range(4)
        return {
            "putTps": spans(put),
            "getFoundTps": spans(found),
            "getMissTps": spans(missed),
            "getTotalTps": spans(found, missed),
            "getTransferredTps": spans(transferred),
        }

    def _days(self) -> dict[str, object]:
        days, totals = self._statistics.days, self._statistics.totals()
        return {
            "msgPutTotalYesterdayMorning": days.put_yesterday,
            "msgPutTotalTodayMorning": days.put_today,
            "msgPutTotalTodayNow": totals.put,
            "msgGetTotalYesterdayMorning": days.got_yesterday,
            "msgGetTotalTodayMorning": days.got_today,
            "msgGetTotalTodayNow": totals.transferred,
        }

    def _queues(self) -> dict[str, object]:
        figures: dict[str, object] = {"heldPulls": len(self._polling)}
        for executor in _EXECUTORS:
            figures[f"{executor}ThreadPoolQueueSize"] = 0
            figures[f"{executor}ThreadPoolQueueCapacity"] = 0
            figures[f"{executor}ThreadPoolQueueHeadWaitTimeMills"] = 0
        figures["EndTransactionQueueSize"] = 0
        figures["EndTransactionThreadPoolQueueCapacity"] = 0
        return figures

    def _delays(self) -> dict[str, object]:
        if self._schedule is None:
            return {}
        timers, now_s = self._schedule.timers.delivery, self._clock.monotonic()
        next_ms = timers.index.next_ms()
        late_ms = 0 if next_ms is None else max(self._clock.now_ms() - next_ms, 0)
        dequeued = timers.delivered.growth(now_s, MINUTE)
        figures: dict[str, object] = {
            "timerReadBehind": late_ms // 1000,  # seconds, as `TimerMessageStore.getDequeueBehind`
            "timerOffsetBehind": timers.behind_count,
            "timerCongestNum": len(timers.index),
            "timerEnqueueTps": round(self._counters.topics.per_second(names.TIMER_TOPIC), 3),
            "timerDequeueTps": round(dequeued.per_second(MESSAGES), 3),
        }
        for level, (offset, end) in self._schedule.offsets().items():
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return figures
