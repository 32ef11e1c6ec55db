"""What holds up clients that send or ask for more than the broker, or they themselves, can take."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.appending.write_backlog import WriteBacklog
from pocketmq.runtime.loop_watch import LoopWatch
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.slow_readers import SlowReaders


class BackPressure(NamedTuple):
    """The limits that all connections share, and the watch of the loop."""

    watch: LoopWatch
    budget: FrameBudget
    slow_readers: SlowReaders
    backlog: WriteBacklog

    def figures(self) -> dict[str, object]:
        """How often each limit was reached, by name; RocketMQ has no such figures."""
        return {
            "loopBlockedTimes": self.watch.count,
            "loopBlockedMaxMs": round(self.watch.max_s * 1000),
            "largeFramesSize": self.budget.size,
            "largeFramesWaiting": self.budget.waiting_count,
            "slowReaders": self.slow_readers.count,
            "slowReadersUnsentSize": self.slow_readers.size,
            "busyRefusals": self.backlog.refused_count,
            "heldSenders": self.backlog.held_count,
        }
