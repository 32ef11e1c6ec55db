"""The clock of a cluster that tests read and advance."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from pocketmq.protocol.errors import UsageError
from pocketmq.testing.cluster_thread import ClusterThread
from pocketmq.testing.core import Core


class _View:
    """The part of a cluster's clock that does not wait."""

    def __init__(self, core: Core, thread: ClusterThread) -> None:
        self._core, self._thread = core, thread

    def now_ms(self) -> int:
        """The cluster's wall-clock time: milliseconds since the epoch."""
        return self._core.clock.now_ms()

    def _jump(self, seconds: float) -> Coroutine[Any, Any, None]:
        if self._core.travel is None:
            raise UsageError(
                "this cluster has the machine's clock, which cannot be advanced: start it with "
                "clock='offset' (the default) or clock='virtual'"
            )
        return self._core.advance(seconds)


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
    ) -> None:
        """Jumps forward by the sum of what is given.

        Delays, timers, retries, transaction checks, order locks and retention come at their own
        moments on the way, in order, and are done on return, with what listeners made of it.
        Connections, requests, heartbeats and held pulls live in real time and notice nothing.

        Raises:
            UsageError: the jump goes back, the cluster has ``clock="system"``, or the thread of the
                caller runs an event loop.
        """
        check_blockable("clock.advance")
        jump_s = in_seconds(seconds, days, hours, minutes, milliseconds)
        self._thread.run(self._jump(jump_s))


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
    ) -> None:
        """As `ClusterClock.advance`."""
        jump_s = in_seconds(seconds, days, hours, minutes, milliseconds)
        await self._thread.wait(self._jump(jump_s))


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
