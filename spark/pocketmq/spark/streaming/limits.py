"""Decides how much one batch of a stream reads, and whether it is time for one."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.spark.streaming.offsets import Offsets, spread
from pocketmq.spark.streaming.options import StreamOptions


class BatchLimits:
    """Decides how many of the waiting messages the next batch takes.

    Args:
        options: of the stream.
        clock: since when a batch has been put off.
    """

    def __init__(self, options: StreamOptions, clock: Clock) -> None:
        self._least, self._most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
        self._delay_s = options.max_trigger_delay_s
        self._clock = clock
        self._last_s = clock.monotonic()

    def take(
        self, backlogs: Mapping[MessageQueue, int], *, is_limited: bool, may_wait: bool
    ) -> Offsets:
        """Decides how many messages of each queue the batch reads; empty if it is to wait.

        Args:
            backlogs: messages that wait, by queue; at least one each.
            is_limited: False for a trigger that reads all there is.
            may_wait: whether few messages may wait for more.
        """
        waiting = sum(backlogs.values())
        now_s = self._clock.monotonic()
        is_few = may_wait and self._least is not None and waiting < self._least
        if is_few and now_s - self._last_s < self._delay_s:
            return {}
        self._last_s = now_s
        return spread(backlogs, self._most) if is_limited and self._most else dict(backlogs)
