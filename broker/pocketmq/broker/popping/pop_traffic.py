"""How much is popped and acknowledged (`BrokerStatsManager#incGroupCkNums`, `#incGroupAckNums`)."""

from __future__ import annotations

from pocketmq.broker.counters.traffic import TrafficTable
from pocketmq.runtime.clock import Clock


class PopTraffic:
    """Counts by group and topic, of which retry topics are others.

    Args:
        clock: for the windows.

    Attributes:
        checkpoints: pops that got messages of a queue.
        acknowledged: messages that consumers have acknowledged while they were in flight.
    """

    def __init__(self, clock: Clock) -> None:
        self.checkpoints: TrafficTable[tuple[str, str]] = TrafficTable(clock)
        self.acknowledged: TrafficTable[tuple[str, str]] = TrafficTable(clock)
