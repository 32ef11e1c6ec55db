"""The broker's figures under RocketMQ's names, as tools and dashboards read them (28)."""

from __future__ import annotations

from pocketmq.broker.counters.traffic import MESSAGES, MINUTE
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.reading.long_polling import LongPolling
from pocketmq.broker.statistics.back_pressure import BackPressure
from pocketmq.broker.statistics.statistics import RATE_SPANS_S, Statistics
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import physical_offset
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import Version
from pocketmq.protocol.names import names
from pocketmq.runtime.clock import Clock

LOOKS_MAX = 256
"""Logs that are opened for one answer."""

_EXECUTORS = ("send", "pull", "litePull", "query", "ack")
"""RocketMQ has a queue of requests for each of them; here requests never queue."""

_NO_POOL = (1 << 31) - 1
"""What RocketMQ tells when it has no pool of write buffers."""

_UNITS = "KMGTPE"


class RuntimeInfo:
    """Gathers the figures for each request.

    Args:
        store, schedule, polling: of the broker.
        statistics: the rates and totals.
        back_pressure: the limits that hold clients up.
        clock: for the broker's age.
    """

    def __init__(
        self,
        store: MessageStore,
        schedule: Schedule,
        polling: LongPolling,
        statistics: Statistics,
        back_pressure: BackPressure,
        clock: Clock,
    ) -> None:
        self._back_pressure = back_pressure
        self._store, self._schedule, self._polling = store, schedule, polling
        self._statistics, self._clock = statistics, clock

    def figures(self) -> dict[str, object]:
        """Returns all figures by name."""
        return {
            **self._identity(),
            **self._puts_and_gets(),
            **self._rates(),
            **self._days(),
            **self._disk(),
            **self._queues(),
            **self._back_pressure.figures(),
            **self._delays(),
        }

    def _identity(self) -> dict[str, object]:
        seconds = max(self._clock.now_ms() - self._statistics.started_ms, 0) // 1000
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        days, hours = divmod(hours, 24)
        refusal = self._store.refusal
        return {
            "brokerActive": "true",
            "brokerVersion": int(Version.V5_5_0),
            "brokerVersionDesc": "V5_5_0",
            "bootTimestamp": self._statistics.started_ms,
            "runtime": f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]",
            "startAcceptSendRequestTimeStamp": 0,
            "writable": "false" if refusal else "true",
            **({"refusal": refusal} if refusal else {}),
        }

    def _puts_and_gets(self) -> dict[str, object]:
        puts = self._store.puts
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

    def _disk(self) -> dict[str, object]:
        store = self._store
        disk = store.disk.use
        ratio = f"{disk.used_percent / 100:.4f}"
        first, last = self.physical_range()
        return {
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{store.logs.root}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_readable(disk.total)}, "
            f"Free : {_readable(disk.free)}.",
            "commitLogMinOffset": first,
            "commitLogMaxOffset": last,
            "earliestMessageTimeStamp": self._earliest_ms(),
            "remainHowManyDataToFlush": _readable(store.unflushed_size),
            "remainTransientStoreBufferNumbs": _NO_POOL,
            "dispatchBehindBytes": 0,
            "dispatchMaxBuffer": 0,
            "pageCacheLockTimeMills": 0,
            "queueLogs": len(store.logs.table),
            "openQueueLogs": len(store.logs.open_logs()),
            "openFiles": store.files.open_count,
            "damagedQueues": len(store.damaged),
            **{f"damagedQueue_{e.topic}_{e.queue_id}": str(e) for e in store.damaged},
        }

    def physical_range(self) -> tuple[int, int]:
        """The lowest and the highest physical offset in use; logs come by their numbers."""
        store = self._store
        low = high = 0
        numbers = sorted(known.number for known in store.logs.table)
        for number in numbers[:LOOKS_MAX]:
            if (queue_log := self._log(number)) is not None and queue_log.size:
                low = physical_offset(number, queue_log.end_position - queue_log.size)
                break
        for number in reversed(numbers):
            if (queue_log := self._log(number)) is not None:
                high = queue_log.next_physical_offset
                break
        return low, high

    def _log(self, number: int) -> QueueLog | None:
        known = self._store.logs.table.by_number(number)
        return None if known is None else self._store.logs.readable_log(known)

    def _earliest_ms(self) -> int:
        """When the oldest message of all was stored; -1 without any.

        A segment is begun for its first message. Of logs at rest beyond `LOOKS_MAX` is only known
        when their last message was stored.
        """
        store = self._store
        at_rest = [known for known in store.logs.table if store.logs.is_at_rest(known)]
        for known in at_rest[:LOOKS_MAX]:
            store.logs.readable_log(known)
        times = [known.checkpoint.timestamp for known in at_rest[LOOKS_MAX:] if known.checkpoint]
        times += [q.segments[0].created_ms for q in store.logs.open_logs() if q.size]
        return min(times, default=-1)

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
        timers, now_s = self._schedule.timers.delivery, self._clock.monotonic()
        next_ms = timers.index.next_ms()
        late_ms = 0 if next_ms is None else max(self._clock.now_ms() - next_ms, 0)
        dequeued = timers.delivered.growth(now_s, MINUTE)
        figures: dict[str, object] = {
            "timerReadBehind": late_ms // 1000,  # seconds, as `TimerMessageStore.getDequeueBehind`
            "timerOffsetBehind": timers.behind_count,
            "timerCongestNum": len(timers.index),
            "timerEnqueueTps": round(self._store.puts.topics.per_second(names.TIMER_TOPIC), 3),
            "timerDequeueTps": round(dequeued.per_second(MESSAGES), 3),
        }
        for level, (offset, end) in self._schedule.offsets().items():
            figures[f"scheduleMessageOffset_{level}"] = f"{offset},{end}"
        return figures


def _readable(size: int) -> str:
    """Bytes as RocketMQ writes them for people (`MixAll#humanReadableByteCount`)."""
    if size < 1024:
        return f"{size} B"
    exponent = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**exponent:.1f} {_UNITS[exponent - 1]}iB"
