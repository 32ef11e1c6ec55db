"""A cluster's clock that can be set forward while real clients are connected to it.

The waits of messages (delays, timers, transaction checks, the life of order locks, retention) go by
this clock. Connections and disks keep the machine's (`Clock.machine`): a jump of two hours makes no
request late, no connection idle and no client silent, whichever process it is in.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
from collections.abc import Awaitable, Callable
from typing import Any

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock, Timer
from pocketmq.testing.clock import Alarm

US = 1_000_000

MS_US = 1000


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


class _Round(Alarm[int]):
    """The timer of a periodic task's next round.

    Args:
        due: the time of the round.
        period: from one round to the next.
        idle_s: see `Clock.sleep_between_rounds`.
        callback, args: the call to make.
    """

    __slots__ = ("idle_s", "period")

    def __init__(
        self,
        due: int,
        period: int,
        idle_s: Callable[[], float],
        callback: Callable[..., object],
        args: tuple[Any, ...],
    ) -> None:
        super().__init__(due, callback, args)
        self.period, self.idle_s = max(1, period), idle_s

    def next_with_work(self, now: int) -> float:
        """Returns the time of the first round that may find something to do."""
        idle_s = self.idle_s()
        if idle_s <= 0:
            return self.due
        return math.inf if math.isinf(idle_s) else self._first_from(now + round(idle_s * US))

    def leave_out(self, until: int) -> None:
        """Leaves out the rounds before a time."""
        self.due = self._first_from(until)

    def _first_from(self, moment: int) -> int:
        return self.due + max(0, -((self.due - moment) // self.period)) * self.period


class TravelClock:
    """A clock that goes on by itself, or stands still, and jumps from timer to timer in `advance`.

    For one event loop; the time may be read from any thread.

    The clock shows whole milliseconds, and timers begin at one: a timer that is set for a moment of
    the wall clock therefore fires at that moment, and not a part of a millisecond later.

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
        self._rounds: dict[_Round, None] = {}
        self._alarm: Timer | None = None
        self._alarm_us = 0
        self._lock: asyncio.Lock | None = None

    # -- as a clock ---------------------------------------------------------------------------

    timer_s_max = math.inf

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

    async def sleep_between_rounds(self, seconds: float, idle_s: Callable[[], float]) -> None:
        """Returns when this many seconds have passed, or a jump comes to a round with work."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        pause_us = round(seconds * US)
        entry = _Round(self._now_us() + pause_us, pause_us, idle_s, _wake, (future,))
        self._rounds[entry] = None
        self._set_alarm()
        try:
            await future
        finally:
            self._rounds.pop(entry, None)

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
        return self._exact_us() // MS_US * MS_US

    def _exact_us(self) -> int:
        if not self.is_running:
            return self._ahead_us
        return round((SystemClock.monotonic() - self._began_s) * US) + self._ahead_us

    # -- time that goes on by itself ----------------------------------------------------------

    def _set_alarm(self) -> None:
        """Sets a timer of the machine for the timer of this clock that is due next."""
        if not self.is_running:
            return
        due_us = min((entry.due for entry in self._rounds), default=None)
        timer_us = self._next_timer_us()
        if due_us is None or (timer_us is not None and timer_us < due_us):
            due_us = timer_us
        if due_us is None:
            return
        if self._alarm is not None:
            if self._alarm_us == due_us:
                return
            self._alarm.cancel()
        self._alarm_us = due_us
        wait_ms = math.ceil(max(0, due_us - self._exact_us()) / MS_US)
        self._alarm = self.machine.call_later(wait_ms / 1000, self._rang)

    def _rang(self) -> None:
        self._alarm = None
        self._fire_due()
        self._set_alarm()

    def _next_timer_us(self) -> int | None:
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def _fire_due(self) -> None:
        """Fires the timers due now, in order; timers that these arm wait for the next call."""
        now_us = self._exact_us()
        rounds = [entry for entry in self._rounds if entry.due <= now_us]
        for entry in rounds:
            del self._rounds[entry]
        due: list[Alarm[int]] = [*rounds]
        while (due_us := self._next_timer_us()) is not None and due_us <= now_us:
            due.append(heapq.heappop(self._timers)[2])
        for timer in sorted(due, key=lambda timer: timer.due):
            timer.fire()

    def close(self) -> None:
        """Drops all timers. Idempotent."""
        self._timers.clear()
        self._rounds.clear()
        self._drop_alarm()

    def _drop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    # -- time that jumps ----------------------------------------------------------------------

    async def advance(self, seconds: float) -> None:
        """Jumps forward; every timer due on the way fires at its own moment, in order.

        The work that a timer begins is done before the clock moves on, and all work on return.
        Rounds that find nothing to do are left out: a time in which nothing happens costs nothing.
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
            try:
                await self._jump(round(seconds * US))
            finally:
                self._drop_alarm()  # set for a time that has become nearer
                self._set_alarm()

    async def _jump(self, jump_us: int) -> None:
        await self.settle()
        target_us = self._exact_us() + jump_us
        while (due_us := self._next_due_us()) is not None and due_us <= target_us:
            self._move_to(due_us)
            self._fire_due()
            await self.settle()
        self._move_to(target_us)

    def next_due_s(self) -> float | None:
        """Returns the seconds until the next timer, or round with work; None if there is none."""
        due_us = self._next_due_us()
        return None if due_us is None else max(0, due_us - self._exact_us()) / US

    def _next_due_us(self) -> int | None:
        now_us, timer_us = self._exact_us(), self._next_timer_us()
        due_us = min((entry.next_with_work(now_us) for entry in self._rounds), default=math.inf)
        due_us = due_us if timer_us is None else min(due_us, timer_us)
        return None if math.isinf(due_us) else int(due_us)

    def _move_to(self, moment_us: int) -> None:
        self._ahead_us += max(0, moment_us - self._exact_us())
        for entry in self._rounds:
            if entry.due < moment_us:
                entry.leave_out(moment_us)


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

    async def sleep_between_rounds(self, seconds: float, idle_s: Callable[[], float]) -> None:
        """Returns when this many seconds have passed."""
        await self.sleep(seconds)

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
