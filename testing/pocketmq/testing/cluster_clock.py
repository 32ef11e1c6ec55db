"""The clock of a cluster that tests read and advance."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.text import counted
from pocketmq.testing.cluster_thread import ClusterThread
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import LOOK_PERIOD_S, Inspection

TIMEOUT_S = 10.0
"""Real time without progress after which `advance(until=…)` gives up."""


CLIENT_TIME_S = 0.02
"""Real time before each step, as long as clients are at work."""


class Steps:
    """Sets a cluster's clock forward within one jump, and gives clients real time in between.

    While no message waits for its time, clients in other processes may be at work: they have real
    time until the time-out. They also have a little before each step: a message that one of them
    sends back waits from its arrival, and the clock must not pass its time because of another
    message.

    Args:
        core: the cluster, whose clock can be advanced.
        inspection: tells whether clients have committed all messages.
        jump_s: seconds that the clock may go forward in all.
        timeout_s: real time without any progress after which `go_on` gives up. Progress is a step,
            or a message that is stored.
    """

    def __init__(self, core: Core, inspection: Inspection, jump_s: float, timeout_s: float) -> None:
        self._core, self._inspection = core, inspection
        self._left_s, self._timeout_s = jump_s, timeout_s
        self._stored = core.stored_count()
        self._progress_s = core.machine.monotonic()

    async def go_on(self) -> bool:
        """Takes one step, or gives clients a moment; False if there was no progress for too long.

        Without a step left within the jump, the rest of the jump is left out: what waits for
        longer is not waited for.
        """
        core, machine, travel = self._core, self._core.machine, self._core.travel
        assert travel is not None
        await self._inspection.comes_true(self._clients_are_done, CLIENT_TIME_S)
        step_s = travel.next_due_s() if core.waiting() else None
        stored = core.stored_count()
        if step_s is not None and step_s <= self._left_s:
            await core.advance(step_s)
            self._left_s -= step_s
        elif stored == self._stored:
            if machine.monotonic() - self._progress_s >= self._timeout_s:
                return False
            await machine.sleep(LOOK_PERIOD_S)
            return True
        self._stored, self._progress_s = stored, machine.monotonic()
        return True

    def _clients_are_done(self) -> bool:
        """Tells whether all groups with members have committed all messages of their topics."""
        inspection = self._inspection
        return not any(
            inspection.members(group) and inspection.lags(group) for group in inspection.groups()
        )


class _View:
    """The part of a cluster's clock that does not wait."""

    def __init__(self, core: Core, thread: ClusterThread, inspection: Inspection) -> None:
        self._core, self._thread, self._inspection = core, thread, inspection

    def now_ms(self) -> int:
        """The cluster's wall-clock time: milliseconds since the epoch."""
        return self._core.clock.now_ms()

    def _jump(self, seconds: float) -> Coroutine[Any, Any, None]:
        self._check_movable()
        return self._core.advance(seconds)

    def _steps(self, seconds: float, timeout_s: float) -> Steps:
        self._check_movable()
        return self._thread.call(Steps, self._core, self._inspection, seconds, timeout_s)

    def _check_movable(self) -> None:
        if self._core.travel is None:
            raise UsageError(
                "this cluster has the machine's clock, which cannot be advanced: start it with "
                "clock='offset' (the default) or clock='virtual'"
            )

    def _not_come(self, began_ms: int, timeout_s: float) -> AssertionError:
        waiting = self._thread.call(self._core.waiting)
        return AssertionError(
            f"the condition of clock.advance(until=…) has not come true: the clock went on by "
            f"{(self.now_ms() - began_ms) / 1000:g} s, then nothing happened for {timeout_s:g} s; "
            f"{counted(waiting, 'message')} still waiting for a later time"
        )


class ClusterClock(_View):
    """The clock of a `Cluster`."""

    def advance(
        self,
        seconds: float = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        milliseconds: float = 0,
        until: Callable[[], object] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Jumps forward by the sum of what is given, or less if a condition comes true before.

        Delays, timers, retries, transaction checks, order locks and retention come at their own
        moments on the way, in order, and are done on return, with what listeners made of it.
        Connections, requests, heartbeats and held pulls live in real time and notice nothing.

        Args:
            seconds, days, hours, minutes, milliseconds: how far the jump goes.
            until: a condition, such as ``lambda: cluster.dead_letters("billing")``. With it the
                clock goes from one due moment to the next, clients in other processes have real
                time in between, and the jump ends at the moment at which the condition is true.
            timeout_s: real time without progress after which a condition is given up.

        Raises:
            AssertionError: the condition has not come true within the jump.
            UsageError: the jump goes back, the cluster has ``clock="system"``, or the thread of the
                caller runs an event loop.
        """
        __tracebackhide__ = True
        check_blockable("clock.advance")
        jump_s = in_seconds(seconds, days, hours, minutes, milliseconds)
        if until is None:
            self._thread.run(self._jump(jump_s))
            return
        steps, began_ms = self._steps(jump_s, timeout_s), self.now_ms()
        while not until():
            if not self._thread.run(steps.go_on()):
                raise self._not_come(began_ms, timeout_s)


class AsyncClusterClock(_View):
    """The clock of an `AsyncCluster`."""

    async def advance(
        self,
        seconds: float = 0,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        milliseconds: float = 0,
        until: Callable[[], object | Awaitable[object]] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """As `ClusterClock.advance`; the condition may be a coroutine function."""
        __tracebackhide__ = True
        jump_s = in_seconds(seconds, days, hours, minutes, milliseconds)
        if until is None:
            await self._thread.wait(self._jump(jump_s))
            return
        steps, began_ms = self._steps(jump_s, timeout_s), self.now_ms()
        while not await _value_of(until()):
            if not await self._thread.wait(steps.go_on()):
                raise self._not_come(began_ms, timeout_s)


async def _value_of(result: object) -> object:
    return await result if isinstance(result, Awaitable) else result


def in_seconds(
    seconds: float, days: float, hours: float, minutes: float, milliseconds: float
) -> float:
    """Adds up a duration in seconds."""
    return seconds + 86_400 * days + 3600 * hours + 60 * minutes + milliseconds / 1000


def check_blockable(what: str) -> None:
    """Refuses to block an event loop, whose own clients could then not do what is waited for.

    Raises:
        UsageError: the caller's thread runs an event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(
        f"{what} would block the event loop that it is called on: use `async with LocalCluster()`, "
        f"or the fixture in an `async def` test, and await {what}"
    )
