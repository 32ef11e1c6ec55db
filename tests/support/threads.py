"""A clock that does not run past the threads: what a disk does takes no virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvloop

from pocketmq.testing.clock import VirtualClock


class WatchedLoop(uvloop.Loop):
    """uvloop, which knows what its threads are at.

    Attributes:
        in_threads: what runs in a thread, or is done and its waiter does not know yet.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_threads: set[asyncio.Future[Any]] = set()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future: Any = super().run_in_executor(executor, func, *args)
        self.in_threads.add(future)
        future.add_done_callback(self.in_threads.discard)
        return future


class PatientClock(VirtualClock):
    """Moves on when all threads of the loop are done: none may wait for the clock itself."""

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WatchedLoop)
        await super()._settle()
        while loop.in_threads:
            await asyncio.wait(loop.in_threads)
            await super()._settle()
