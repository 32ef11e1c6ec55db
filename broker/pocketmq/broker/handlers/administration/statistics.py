"""The broker's figures: 28, 45, 315."""

from __future__ import annotations

from pocketmq.broker.counters.traffic import DAY, HOUR, MINUTE
from pocketmq.broker.delay.schedule import Schedule
from pocketmq.broker.statistics.runtime_info import RuntimeInfo
from pocketmq.broker.statistics.statistics import STATS_NAMES, Statistics
from pocketmq.protocol.bodies.brokers import BrokerStats, StatsItem
from pocketmq.protocol.bodies.groups import DelayOffsets
from pocketmq.protocol.bodies.topics import KVTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.requests.brokers import BrokerStatsRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler


class StatisticsHandlers:
    """Answers with the broker's statistics.

    Args:
        runtime_info: the figures.
        statistics: by topic and group.
        schedule: how far delayed messages are delivered; None for a follower, which delivers none.
    """

    def __init__(
        self,
        runtime_info: RuntimeInfo,
        statistics: Statistics,
        schedule: Schedule | None,
    ) -> None:
        self._runtime_info, self._statistics = runtime_info, statistics
        self._schedule = schedule

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.GET_BROKER_RUNTIME_INFO: self.show,
            RequestCode.GET_ALL_DELAY_OFFSET: self.delay_offsets,
            RequestCode.VIEW_BROKER_STATS_DATA: self.stats,
        }

    def show(self, _: Command, __: Connection) -> Command:
        """28: figures as strings, under RocketMQ's names where it has one."""
        figures = self._runtime_info.figures()
        table = KVTable(table={key: str(value) for key, value in figures.items()})
        return Command(ResponseCode.SUCCESS, body=table.encode())

    def delay_offsets(self, _: Command, __: Connection) -> Command:
        """45: how far each delay level that is used has delivered."""
        levels = {} if self._schedule is None else self._schedule.offsets()
        offsets = {level: offset for level, (offset, _) in levels.items()}
        return Command(ResponseCode.SUCCESS, body=DelayOffsets(offset_table=offsets).encode())

    def stats(self, command: Command, _: Connection) -> Command:
        """315: up to now; RocketMQ's end with the last sample, up to an hour ago."""
        request = command.read(BrokerStatsRequest)
        views = [
            self._statistics.view(request.stats_name, request.stats_key, window)
            for window in (MINUTE, HOUR, DAY)
        ]
        items = [
            StatsItem(sum=int(view.total), tps=view.per_second, avgpt=view.average)
            for view in views
            if view is not None
        ]
        if len(items) < len(views):
            known = "nothing was counted under that key since the broker's start"
            if request.stats_name not in STATS_NAMES:
                known = f"statistics are {', '.join(STATS_NAMES)}"
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"The stats <{request.stats_name}> <{request.stats_key}> not exist: {known}",
            )
        minute, hour, day = items
        body = BrokerStats(stats_minute=minute, stats_hour=hour, stats_day=day)
        return Command(ResponseCode.SUCCESS, body=body.encode())
