"""Tells when the event loop was kept from its work: nobody is served while one callback runs."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from pocketmq.transport.clock import Clock, Timer

T = TypeVar("T")

log = logging.getLogger("pocketmq.transport")

TICK_S = 0.02
"""How often the loop is asked for a sign of life while it has something to do.

Each tick costs about 50 µs; an idle loop is not asked.
"""

BLOCKED_S = 0.05
"""A tick that comes later than this tells of a blockage; one up to TICK_S longer may be missed."""

LOG_PERIOD_S = 1.0
"""Blockages are told of once in so many seconds, however many there were."""


class LoopWatch:
    """Measures by a timer how long the loop is blocked.

    The timer runs only while something happens: whoever makes the loop work says so with `began`.

    Args:
        clock: whose timer it is.
        cpu_s: seconds that this thread has computed, to tell work from waiting for the disk or
            for the machine.

    Attributes:
        count: blockages since the start.
        max_s: the longest of them, or the longest lateness below that.
    """

    def __init__(self, clock: Clock, cpu_s: Callable[[], float] = time.thread_time) -> None:
        self._clock, self._cpu_s = clock, cpu_s
        self.count = 0
        self.max_s = 0.0
        self._last: int | None = None  # since the last tick
        self._told: int | str | None = None  # before it
        self._timer: Timer | None = None
        self._due_s = self._cpu_at_s = 0.0
        self._quiet_until_s = clock.monotonic()
        self._untold = 0

    def began(self, code: int) -> None:
        """Notes that a request is handled from now on; the loop is watched for two ticks at least.

        Args:
            code: the request's.
        """
        self._last = code
        if self._timer is None:
            self._arm()

    def began_task(self, name: str) -> None:
        """Notes that something is done by itself from now on; the loop is watched for a tick."""
        if self._timer is None:
            self._told = name
            self._arm()

    def watched(self, name: str, action: Callable[[], T]) -> Callable[[], T]:
        """The same action, which says that it has begun."""

        def watched_action() -> T:
            self.began_task(name)
            return action()

        return watched_action

    def close(self) -> None:
        """Ends the watch."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._due_s = self._clock.monotonic() + TICK_S
        self._cpu_at_s = self._cpu_s()
        self._timer = self._clock.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_s = self._clock.monotonic()
        late_s = now_s - self._due_s
        if late_s > self.max_s:
            self.max_s = late_s
        if late_s > BLOCKED_S:
            self._blocked(now_s, late_s)
        self._timer = None
        if self._last is not None:
            self._told, self._last = self._last, None
            self._arm()

    def _blocked(self, now_s: float, late_s: float) -> None:
        self.count += 1
        if now_s < self._quiet_until_s:
            self._untold += 1
            return
        self._quiet_until_s = now_s + LOG_PERIOD_S
        what = self._last if self._last is not None else self._told
        others = f", and {self._untold} times since this was last told" if self._untold else ""
        self._untold = 0
        log.warning(
            "the event loop was blocked for %.0f ms, of which it worked %.0f ms; begun last: %s%s",
            late_s * 1000,
            (self._cpu_s() - self._cpu_at_s) * 1000,
            f"request {what}" if isinstance(what, int) else what,
            others,
        )
