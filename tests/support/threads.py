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
        threads_done: how many things have run in threads.
    """

    def __init__(self) -> None:
        super().__init__()
        self.in_threads: set[asyncio.Future[Any]] = set()
        self.threads_done = 0

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future: Any = super().run_in_executor(executor, func, *args)
        self.in_threads.add(future)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: asyncio.Future[Any]) -> None:
        self.in_threads.discard(future)
        self.threads_done += 1


class PatientClock(VirtualClock):
    """Moves on when all threads of the loop are done: none may wait for the clock itself."""

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, WatchedLoop)
        done_before = -1
        while loop.in_threads or loop.threads_done != done_before:
            if loop.in_threads:
                await asyncio.wait(loop.in_threads)
            done_before = loop.threads_done  # what is done meanwhile has waiters that have not run
            await super()._settle()
