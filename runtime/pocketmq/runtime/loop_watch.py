"""Detects when one callback blocks the event loop, during which nobody is served."""

from __future__ import annotations

import asyncio
import logging
import time
import types
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.tasks import Action

log = logging.getLogger("pocketmq.transport")

TICK_S = 0.02
"""How often the loop is asked for a sign of life while it has something to do.

Each tick costs about 50 µs; an idle loop is not asked.
"""

BLOCKED_S = 0.05
"""A tick that is later than this counts as a blockage; one up to TICK_S longer may be missed."""

LOG_PERIOD_S = 1.0
"""Blockages of one level are logged once in so many seconds, however many there were."""


class LoopWatch:
    """Measures how long the event loop is blocked, by a timer that comes late.

    The timer runs only while requests come, of which `began` is told. The broker's periodic
    actions are measured step by step instead (`watched`). A blockage is a warning in the log if
    this thread computed all the while; waiting for the disk or for a busy machine is information.

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
        self._told: int | None = None  # before it
        self._timer: Timer | None = None
        self._due_s = self._cpu_at_s = 0.0
        self._quiet_until_s = dict.fromkeys((logging.INFO, logging.WARNING), clock.stopwatch())
        self._untold = dict.fromkeys(self._quiet_until_s, 0)

    def began(self, code: int) -> None:
        """Notes the request that is handled now, and watches the loop for at least two ticks.

        Args:
            code: the request's.
        """
        self._last = code
        if self._timer is None:
            self._arm()

    def watched(self, name: str, action: Action) -> Action:
        """Wraps an action so that its time between any two iterations of the loop is measured.

        An idle broker, which does little but periodic actions, so needs no ticks.

        Args:
            name: what it is called when it blocks the loop.
            action: a plain or a coroutine function.
        """

        def watched_action() -> Awaitable[object] | object:
            with self._measured(name):
                result = action()
            return self._stepped(name, result) if isinstance(result, Awaitable) else result

        return watched_action

    async def _stepped(self, name: str, waiting: Awaitable[object]) -> object:
        return await self._by_steps(name, waiting)

    @types.coroutine
    def _by_steps(self, name: str, waiting: Awaitable[object]) -> Generator[Any, Any, object]:
        steps = waiting.__await__()
        error: asyncio.CancelledError | None = None
        try:
            while True:
                with self._measured(name):
                    step = next(steps) if error is None else steps.throw(error)
                error = None
                try:
                    yield step
                except GeneratorExit:
                    steps.close()
                    raise
                except asyncio.CancelledError as e:
                    error = e
        except StopIteration as end:
            return end.value

    @contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        begun_s, cpu_s = self._clock.stopwatch(), self._cpu_s()
        try:
            yield
        finally:
            now_s = self._clock.stopwatch()
            self._took(now_s, now_s - begun_s, cpu_s, name)

    def close(self) -> None:
        """Stops the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._due_s = self._clock.stopwatch() + TICK_S
        self._cpu_at_s = self._cpu_s()
        self._timer = self._clock.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        now_s = self._clock.stopwatch()
        what = self._last if self._last is not None else self._told
        self._took(now_s, now_s - self._due_s, self._cpu_at_s, f"request {what}")
        self._timer = None
        if self._last is not None:
            self._told, self._last = self._last, None
            self._arm()

    def _took(self, now_s: float, late_s: float, cpu_at_s: float, what: str) -> None:
        if late_s > self.max_s:
            self.max_s = late_s
        if late_s <= BLOCKED_S:
            return
        self.count += 1
        worked_s = self._cpu_s() - cpu_at_s
        level = logging.WARNING if worked_s > BLOCKED_S else logging.INFO
        if now_s < self._quiet_until_s[level]:
            self._untold[level] += 1
            return
        self._quiet_until_s[level] = now_s + LOG_PERIOD_S
        untold, self._untold[level] = self._untold[level], 0
        log.log(
            level,
            "the event loop was blocked for %.0f ms, of which it worked %.0f ms; begun last: %s%s",
            late_s * 1000,
            worked_s * 1000,
            what,
            f", and {untold} times since this was last told" if untold else "",
        )
