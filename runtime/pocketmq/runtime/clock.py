"""The one source of time: whatever stamps or waits takes a `Clock`.

`SystemClock` is the machine's; `pocketmq.testing` has a virtual one that jumps.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Timer(Protocol):
    """A callback that is due later."""

    def cancel(self) -> None:
        """Makes sure that the callback is not called any more."""


class Clock(Protocol):
    """Time as the rest of the code sees it."""

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""

    def stopwatch(self) -> float:
        """The same for measuring how long something took, which nothing waits for.

        Who looks at the time for more than that is taken for busy by clocks that jump when nobody
        is (`pocketmq.testing.travel.travel_clock`).
        """

    async def sleep(self, seconds: float) -> None:
        """Returns when so many seconds have passed."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback on the running loop when so many seconds have passed."""

    @property
    def machine(self) -> Clock:
        """The time of wires and disks: deadlines, idle limits, heartbeats, housekeeping.

        The clock itself, but for one that can be set forward while real clients are connected
        (`pocketmq.testing.travel.travel_clock`): what peers agree on must not be hurried then.
        """


class SystemClock:
    """The machine's clock and the running loop's timers."""

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    monotonic = staticmethod(time.monotonic)
    stopwatch = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Returns when so many seconds have passed."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback on the running loop when so many seconds have passed."""
        return asyncio.get_running_loop().call_later(seconds, callback, *args)

    @property
    def machine(self) -> Clock:
        """Itself."""
        return self


async def within(clock: Clock, seconds: float, awaitable: Awaitable[T]) -> T:
    """Awaits something for so many seconds of the clock at the most.

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
        if expired:
            raise TimeoutError from None
        future.cancel()
        raise
    finally:
        timer.cancel()
