"""A cluster's clock that can be set forward while real clients are connected to it.

The waits of messages (delays, timers, transaction checks, the life of order locks, retention) go by
this clock. Connections and disks keep the machine's (`Clock.machine`): a jump of two hours makes no
request late, no connection idle and no client silent, whichever process it is in.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock, Timer
from pocketmq.testing.clock import Alarm

US = 1_000_000

TOLERANCE_US = 1000
"""The error of timers that are armed for a wall-clock time, which is in whole milliseconds."""

DUE_US = 2
"""A remainder of a wait that only rounding leaves."""


class WatchedClock(SystemClock):
    """The machine's clock with a count of its reads: each read from a connection reads the clock.

    Attributes:
        reads: the number of reads.
    """

    def __init__(self) -> None:
        self.reads = 0

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back."""
        self.reads += 1
        return SystemClock.monotonic()


class TravelClock:
    """A clock that goes on by itself, or stands still, and jumps from timer to timer in `advance`.

    For one event loop; the time may be read from any thread.

    Args:
        machine: the clock of connections and disks.
        is_running: whether the clock goes on with the machine's; else only `advance` moves it.
        start_ms: the wall-clock time to begin with; by default the machine's.
        settle: awaited before the clock moves on; returns when all work of fired timers is done.

    Attributes:
        reads: the number of reads of the clock.
    """

    def __init__(
        self,
        machine: WatchedClock | None = None,
        *,
        is_running: bool = True,
        start_ms: int | None = None,
        settle: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.machine = machine or WatchedClock()
        self.is_running = is_running
        self.reads = 0
        self.settle = settle or _nothing
        self._start_us = 1000 * (self.machine.now_ms() if start_ms is None else start_ms)
        self._began_s = SystemClock.monotonic()
        self._ahead_us = 0
        self._timers: list[tuple[int, int, Alarm[int]]] = []
        self._sequence = itertools.count()
        self._alarm: Timer | None = None
        self._alarm_us = 0
        self._lock: asyncio.Lock | None = None

    # -- as a clock ---------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        self.reads += 1
        return (self._start_us + self._now_us()) // 1000

    def monotonic(self) -> float:
        """Seconds since the clock was made, jumps included."""
        self.reads += 1
        return self._now_us() / US

    def stopwatch(self) -> float:
        """Seconds of the machine."""
        return self.machine.stopwatch()

    async def sleep(self, seconds: float) -> None:
        """Returns when this many seconds have passed or were jumped over."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback when this many seconds have passed or were jumped over."""
        entry = Alarm(self._now_us() + max(0, round(seconds * US)), callback, args)
        if seconds <= 0:
            self.reads += 1
            asyncio.get_running_loop().call_soon(entry.fire)
        else:
            heapq.heappush(self._timers, (entry.due, next(self._sequence), entry))
            self._set_alarm()
        return entry

    def _now_us(self) -> int:
        if not self.is_running:
            return self._ahead_us
        return round((SystemClock.monotonic() - self._began_s) * US) + self._ahead_us

    # -- time that goes on by itself ----------------------------------------------------------

    def _set_alarm(self) -> None:
        """Sets a timer of the machine for the timer of this clock that is due next."""
        due_us = self._next_due_us()
        if not self.is_running or due_us is None:
            return
        if self._alarm is not None:
            if self._alarm_us == due_us:
                return
            self._alarm.cancel()
        self._alarm_us = due_us
        wait_s = max(0, due_us - self._now_us()) / US
        self._alarm = self.machine.call_later(wait_s, self._rang)

    def _rang(self) -> None:
        self._alarm = None
        self._fire_due()
        self._set_alarm()

    def _next_due_us(self) -> int | None:
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _fire_due(self) -> None:
        """Fires the timers due now, in order; timers that these arm wait for the next call."""
        limit_us = self._now_us() + DUE_US
        due = []
        while (due_us := self._next_due_us()) is not None and due_us <= limit_us:
            due.append(heapq.heappop(self._timers)[2])
        for entry in due:
            entry.fire()

    def close(self) -> None:
        """Drops all timers. Idempotent."""
        self._timers.clear()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # -- time that jumps ----------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Jumps forward; every timer due on the way fires at its own moment, in order.

        The work that a timer begins is done before the clock moves on, and all work on return.
        Concurrent calls jump one after the other.

        Raises:
            UsageError: the number of seconds is negative.
        """
        if seconds < 0:
            raise UsageError(
                f"the clock cannot be set back by {-seconds:g} s: stored messages have their times "
                "in order; start another cluster instead"
            )
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            await self.settle()
            target_us = self._now_us() + round(seconds * US)
            while (due_us := self._next_due_us()) is not None:
                if due_us > target_us + TOLERANCE_US:
                    break
                self._move_to(due_us)
                self._fire_due()
                await self.settle()
            self._move_to(target_us)
            self._set_alarm()

    def next_due_s(self) -> float | None:
        """Returns the seconds until the next timer; None if there is none."""
        due_us = self._next_due_us()
        return None if due_us is None else max(0, due_us - self._now_us()) / US

    def _move_to(self, moment_us: int) -> None:
        self._ahead_us += max(0, moment_us - self._now_us())


class ClientClock(SystemClock):
    """The clock of a cluster's clients: the cluster's wall-clock time, with waits of the machine.

    Args:
        travel: the cluster's clock.
        on_loop: called with each loop that the clock is used on.
    """

    def __init__(
        self, travel: TravelClock, on_loop: Callable[[asyncio.AbstractEventLoop], object]
    ) -> None:
        self._travel, self._on_loop = travel, on_loop

    def now_ms(self) -> int:
        """Wall-clock time of the cluster: milliseconds since the epoch."""
        return self._travel.now_ms()

    def monotonic(self) -> float:
        """Seconds of the machine."""
        return self._travel.machine.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Returns when this many seconds have passed."""
        self._on_loop(asyncio.get_running_loop())
        await self._travel.machine.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls the callback on the running loop when this many seconds have passed."""
        self._on_loop(asyncio.get_running_loop())
        return self._travel.machine.call_later(seconds, callback, *args)


async def _nothing() -> None:
    """Returns at once: nothing has to settle."""


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
