"""Knows when a cluster and the clients of this process have nothing left to do for now."""

from __future__ import annotations

import asyncio
import logging
import weakref
from typing import Protocol

from pocketmq.runtime.clock import SystemClock, within
from pocketmq.testing.clock import pass_turns
from pocketmq.testing.travel_clock import TravelClock, WatchedClock

log = logging.getLogger("pocketmq.testing")

FIRST_TURNS = 4
"""Turns of the cluster's loop in which whatever begins looks at a clock."""

OWN_TURNS = 8
"""Turns that must pass without a look after that."""

OWN_ROUNDS_MAX = 1000
"""Then the loop counts as quiet although somebody keeps it busy."""

OTHER_TURNS = 4
"""Turns given to each loop with clients: what had arrived was read, and answered, by then."""

BREATH_S = 0.001
"""The last look comes so much later: for bytes between two sockets, results between threads."""

PATIENCE_S = 10.0
"""So long listeners and loops may keep a jump waiting; then it goes on, with a warning."""

ROUNDS_MAX = 1000
"""So many rounds traffic may, which never ends where another process sends all the time."""


class Work(Protocol):
    """Something that is under way somewhere, perhaps in threads."""

    @property
    def at_work(self) -> int:
        """How often."""


class Settling:
    """Waits until nothing moves: no bytes between the cluster and its clients, no listener at work.

    Whatever comes over a wire looks at the watched clock, so looks that stay away for a whole round
    through all loops show that it is quiet. Held pulls and pending retries are no work.

    Args:
        machine: the clock of the wires.

    Attributes:
        works: calls of the application's code that are waited for.
    """

    def __init__(self, machine: WatchedClock) -> None:
        self._machine = machine
        self._travel: TravelClock | None = None
        self._loops: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()
        self.works: set[Work] = set()
        self._looks = -1

    def use(self, travel: TravelClock) -> None:
        """Watches this clock as well; settles before it moves on."""
        self._travel = travel
        travel.settle = self.wait

    def add_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        """Clients run on this loop."""
        self._loops.add(loop)

    async def wait(self) -> None:
        """Returns when it is quiet."""
        await self._own_turns()
        if self._machine.looks == self._looks and not self._at_work():
            return  # no wire was touched since it was quiet the last time
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
        """Whether nothing moves during two rounds with a breath between them."""
        for _ in range(2):
            looks = await self._round()
            if self._machine.looks != looks or self._at_work():
                if self._at_work():
                    await self._machine.sleep(BREATH_S)
                return False
            if looks != self._looks:
                await self._machine.sleep(BREATH_S)
                self._looks = looks
        return True

    def _at_work(self) -> int:
        return sum(work.at_work for work in self.works)

    async def _round(self) -> int:
        """Goes through all loops once; returns the looks before the last turns of the own one."""
        looks = self._machine.looks
        await self._own_turns()
        for loop in list(self._loops):
            if loop is not asyncio.get_running_loop() and loop.is_running():
                await self._turns_of(loop)
        await self._own_turns()
        return looks

    async def _own_turns(self) -> None:
        """Turns of this loop, until some have passed in which nothing happened."""
        turns, seen = FIRST_TURNS, self._seen()
        for _ in range(OWN_ROUNDS_MAX):
            await pass_turns(turns)
            if seen == (seen := self._seen()):
                return
            turns = OWN_TURNS

    def _seen(self) -> int:
        return self._machine.looks + (self._travel.looks if self._travel else 0)

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
