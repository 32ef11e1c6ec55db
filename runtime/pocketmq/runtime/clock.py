"""The one source of time: all code that stamps or waits takes a `Clock`.

`SystemClock` is the machine's; `pocketmq.testing` has a virtual one that jumps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

STEP_NOTICED_S = 60.0
"""So soon it is noticed that the machine's wall clock was set, or that the machine slept."""


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Makes sure that the callback is not called any more."""


class Clock(Protocol):
    """Time as the rest of the code sees it.

    Attributes:
        timer_s_max: the longest timer that is worth setting for a moment of the wall clock.
    """

    @property
    def timer_s_max(self) -> float: ...  # noqa: D102

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def stopwatch(self) -> float:
        """Seconds of a clock that never goes back, only to measure how long something took.

        Clocks that jump while nobody is busy (`pocketmq.testing.travel.travel_clock`) take every
        other look at the time for work.
        """

    async def sleep(self, seconds: float) -> None:
        """Returns when so many seconds have passed."""

    async def sleep_between_rounds(self, seconds: float, idle_s: Callable[[], float]) -> None:
        """Returns when so many seconds have passed, before the next round of periodic work.

        Args:
            seconds: the pause.
            idle_s: returns for how many seconds from now on rounds would find nothing to do, if
                nothing else happens. A clock that jumps leaves those rounds out.
        """

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback on the running loop when so many seconds have passed."""

    @property
    def machine(self) -> Clock:
        """The clock of wires and disks: for deadlines, idle limits, heartbeats, housekeeping.

        It is the clock itself, unless that can be set forward while real clients are connected
        (`pocketmq.testing.travel.travel_clock`): then what peers agree on must not be hurried.
        """


class SystemClock:
    """The machine's clock and the running loop's timers."""

    timer_s_max = STEP_NOTICED_S

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    stopwatch = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Returns when so many seconds have passed."""
        await asyncio.sleep(seconds)

    async def sleep_between_rounds(self, seconds: float, idle_s: Callable[[], float]) -> None:
        """Returns when so many seconds have passed."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback on the running loop when so many seconds have passed."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    @property
    def machine(self) -> Clock:
        """The clock itself."""
        return self


async def within(clock: Clock, seconds: float, awaitable: Awaitable[T]) -> T:
    """Awaits an awaitable for at most so many seconds of a clock.

    Raises:
        TimeoutError: it took longer; it was cancelled.
    """
    future = asyncio.ensure_future(awaitable)
    expired = False

    def expire() -> None:
        nonlocal expired
        expired = not future.done()
        future.cancel()

    timer = clock.call_later(seconds, expire)
    try:
        return await future
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if expired and not (task is not None and task.cancelling()):
            raise TimeoutError from None
        future.cancel()
        raise
    finally:
        timer.cancel()
