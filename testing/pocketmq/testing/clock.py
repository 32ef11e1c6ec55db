"""A clock that only `advance` moves."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pocketmq.runtime.clock import STEP_NOTICED_S

START_MS = 1_700_000_000_000
"""The default start of a virtual clock: a date in November 2023."""

SETTLE_TURNS = 50
"""Turns of the event loop given to woken tasks before time moves on."""


TimeT = TypeVar("TimeT", int, float)


class Alarm(Generic[TimeT]):
    """A timer of a test clock: fires once, unless it is cancelled.

    Args:
        due: the time to fire at, in the unit of its clock.
        callback, args: the call to make then.
    """

    __slots__ = ("args", "callback", "due")

    def __init__(self, due: TimeT, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due: TimeT = due
        self.args = args
        self.callback: Callable[..., object] | None = callback

    def cancel(self) -> None:
        """Prevents the call of the callback. Idempotent."""
        self.callback = None

    def fire(self) -> None:
        """Calls the callback once, unless the timer was cancelled."""
        callback, self.callback = self.callback, None
        if callback is not None:
            callback(*self.args)


class VirtualClock:
    """Time under control: `advance` jumps from timer to timer, in order.

    Args:
        start_ms: the wall-clock time to begin with, milliseconds since the epoch.
    """

    timer_s_max = STEP_NOTICED_S

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start_ms = start_ms
        self._elapsed_s = 0.0
        self._timers: list[tuple[float, int, Alarm[float]]] = []
        self._sequence = itertools.count()

    def now_ms(self) -> int:
        """Wall-clock time: milliseconds since the epoch."""
        return self._start_ms + round(self._elapsed_s * 1000)

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._elapsed_s

    def stopwatch(self) -> float:
        """Seconds since the clock was made, as `monotonic`."""
        return self.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Returns when `advance` has moved the clock by this many seconds."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _wake, future)
        try:
            await future
        finally:
            timer.cancel()

    async def sleep_between_rounds(self, seconds: float, idle_s: Callable[[], float]) -> None:
        """Returns when `advance` has moved the clock by this many seconds."""
        await self.sleep(seconds)

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: Any
    ) -> Alarm[float]:
        """Calls the callback when `advance` has moved the clock by this many seconds."""
        entry = Alarm(self._elapsed_s + max(0.0, seconds), callback, args)
        if seconds <= 0:  # due now: waiting for an `advance` would make it later
            asyncio.get_running_loop().call_soon(entry.fire)
        else:
            heapq.heappush(self._timers, (entry.due, next(self._sequence), entry))
        return entry

    @property
    def machine(self) -> VirtualClock:
        """The clock itself: with it connections and disks have no other time."""
        return self

    @property
    def pending_timers(self) -> int:
        """The number of armed timers."""
        return sum(entry.callback is not None for _, _, entry in self._timers)

    def block(self, seconds: float) -> None:
        """Moves time as if the loop was blocked: timers due meanwhile fire late."""
        self._elapsed_s += seconds

    async def advance(self, seconds: float) -> None:
        """Moves time forward; every timer due on the way fires at its own moment, in order."""
        target = self._elapsed_s + seconds
        await self._settle()
        while self._timers and self._timers[0][0] <= target:
            due, _, entry = heapq.heappop(self._timers)
            if entry.callback is None:
                continue
            self._elapsed_s = max(self._elapsed_s, due)
            entry.fire()
            await self._settle()
        self._elapsed_s = target
        await self._settle()

    async def _settle(self) -> None:
        await settle()


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


TURNS_OF_A_FUTURE = 2
"""Turns that `pass_turns` adds: one before its first callback, and one before it returns."""


async def settle(turns: int = SETTLE_TURNS) -> None:
    """Gives tasks that can run exactly this many turns of the loop."""
    if turns < TURNS_OF_A_FUTURE:
        await asyncio.sleep(0)
    else:
        await pass_turns(turns - TURNS_OF_A_FUTURE)


async def pass_turns(count: int) -> None:
    """Lets turns of the running loop pass by callbacks alone, without a step of a task in each."""
    loop = asyncio.get_running_loop()
    passed: asyncio.Future[None] = loop.create_future()

    def turn(left: int) -> None:
        if left:
            loop.call_soon(turn, left - 1)
        elif not passed.done():
            passed.set_result(None)

    loop.call_soon(turn, count)
    await passed
