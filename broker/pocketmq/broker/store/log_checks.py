"""Looks at the ends of logs after a broker was killed, while the broker serves already."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from pocketmq.broker.store.metadata.log_table import KnownLog
from pocketmq.broker.store.queue_logs import QueueLogs
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import in_slices

log = logging.getLogger("pocketmq.store")

LOGS_PER_SLICE = 10
"""Logs that are checked between two turns of the loop: about 2 ms."""

RETRY_PERIOD_S = 5.0


class LogChecks:
    """Checks the logs that nobody has asked for since the kill, one after the other.

    Args:
        logs: some of which are unchecked.
        clock: the machine's.
    """

    def __init__(self, logs: QueueLogs, clock: Clock) -> None:
        self._logs, self._clock = logs, clock

    async def run(self) -> None:
        """Returns when all logs are checked; those that cannot be read now are tried again."""
        if not self._logs.unchecked:
            return
        begun_s = self._clock.stopwatch()
        await self.check_once()
        while self._logs.unchecked:
            await self._clock.sleep(RETRY_PERIOD_S)
            await self.check_once()
        log.info("all logs are checked, %.1f s after the start", self._clock.stopwatch() - begun_s)

    async def check_once(self) -> None:
        """Checks each unchecked log; afterwards those are unchecked that cannot be read now."""
        async for known in in_slices(self._clock, self._left(), LOGS_PER_SLICE):
            self._logs.check(known)

    def finish(self) -> bool:
        """Checks all logs without a pause; returns False if some cannot be read."""
        for known in self._left():
            self._logs.check(known)
        return not self._logs.unchecked

    def _left(self) -> Iterator[KnownLog]:
        table = self._logs.table
        return (known for n in list(self._logs.unchecked) if (known := table.by_number(n)))
