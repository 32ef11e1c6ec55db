"""Detects that a cluster and the clients of this process have nothing left to do for now."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Protocol

from pocketmq.runtime.clock import SystemClock, within
from pocketmq.testing.clock import pass_turns
from pocketmq.testing.travel.travel_clock import TravelClock, WatchedClock

log = logging.getLogger("pocketmq.testing")

FIRST_TURNS = 4
"""Turns of the cluster's loop within which new work has read a clock."""

OWN_TURNS = 8
"""Turns that must then pass without a read of a clock."""

OWN_ROUNDS_MAX = 1000
"""Rounds after which the loop counts as quiet although it is kept busy."""

OTHER_TURNS = 4
"""Turns given to each loop with clients, to read and answer the bytes that have arrived."""

PAUSE_S = 0.001
"""Pause before the last check, for bytes between two sockets and results between threads."""

PATIENCE_S = 10.0
"""How long listeners and loops may hold up a jump; then the jump goes on, with a warning."""

ROUNDS_MAX = 1000
"""Rounds that traffic may hold up a jump: another process may send for ever."""


class Work(Protocol):
    """Calls that are under way, perhaps in threads."""

    @property
    def at_work(self) -> int:
        """The number of calls under way."""


class Settling:
    """Waits until no bytes are between the cluster and its clients and no listener is at work.

    Every read from a network connection reads the machine's clock. If nobody has read that clock
    during one full round through all loops, no bytes are under way. Held pulls and pending retries
    do not count as work.

    Args:
        machine: the clock that connections read.

    Attributes:
        works: calls of the application's code that a jump waits for.
    """

    def __init__(self, machine: WatchedClock) -> None:
        self._machine = machine
        self._travel: TravelClock | None = None
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self.works: set[Work] = set()
        self._quiet_reads = -1

    def watch(self, travel: TravelClock) -> None:
        """Takes reads of this clock for activity as well."""
        self._travel = travel

    def add_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Adds a loop that clients run on."""
        self._loops.add(loop)

    async def wait(self) -> None:
        """Returns when nothing moves any more, or patience is at its end."""
        await self._own_turns()
        if self._machine.reads == self._quiet_reads and not self._at_work():
            return  # no connection has read since the last quiet moment
        began_s, rounds = SystemClock.monotonic(), 0
        while not await self._is_quiet():
            rounds += 1
            if not self._at_work() and rounds > ROUNDS_MAX:
                return
            if self._at_work() and SystemClock.monotonic() - began_s > PATIENCE_S:
                log.warning(
                    "time goes on although %d calls of listeners have been at work for %g s",
                    self._at_work(),
                    PATIENCE_S,
                )
                return

    async def _is_quiet(self) -> bool:
        """Tells whether nothing moves during two rounds with a pause between them."""
        for _ in range(2):
            reads = await self._round()
            if self._machine.reads != reads or self._at_work():
                if self._at_work():
                    await self._machine.sleep(PAUSE_S)
                return False
            if reads != self._quiet_reads:
                await self._machine.sleep(PAUSE_S)
                self._quiet_reads = reads
        return True

    def _at_work(self) -> int:
        return sum(work.at_work for work in self.works)

    async def _round(self) -> int:
        """Goes through all loops once; returns the number of clock reads before the round."""
        reads = self._machine.reads
        await self._own_turns()
        for loop in list(self._loops):
            if loop is not asyncio.get_running_loop() and loop.is_running():
                await self._turns_of(loop)
        await self._own_turns()
        return reads

    async def _own_turns(self) -> None:
        """Passes turns of this loop until some have gone by without a read of a clock."""
        turns, seen = FIRST_TURNS, self._reads()
        for _ in range(OWN_ROUNDS_MAX):
            await pass_turns(turns)
            if seen == (seen := self._reads()):
                return
            turns = OWN_TURNS

    def _reads(self) -> int:
        return self._machine.reads + (self._travel.reads if self._travel else 0)

    async def _turns_of(self, loop: asyncio.AbstractEventLoop) -> None:
        future = asyncio.run_coroutine_threadsafe(pass_turns(OTHER_TURNS), loop)
        try:
            await within(self._machine, PATIENCE_S, asyncio.wrap_future(future))
        except TimeoutError:
            log.warning("time goes on although an event loop with clients has been stuck")
            self._loops.discard(loop)
        except asyncio.CancelledError:
            if not future.cancelled():
                raise
