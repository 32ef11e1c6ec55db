"""Starting and closing producers and consumers: one at a time, and a begun close ends."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Self

Step = Callable[[], Awaitable[None]]


class Startable(ABC):
    """An object that is used in an ``async with`` block, or between `start` and `close`."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    @abstractmethod
    async def start(self) -> None:
        """Makes the object usable. Idempotent."""

    @abstractmethod
    async def close(self) -> None:
        """Finishes what is under way and closes the object. Idempotent."""


class Lifecycle:
    """Runs the starts and closes of one object one after the other.

    Simultaneous callers of `close` wait for the same close. A caller that is cancelled only stops
    waiting: what was handled is still stored, and nothing is left running.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._closing: asyncio.Task[None] | None = None

    async def start(self, step: Step) -> None:
        """Runs a start, after a close that is under way."""
        async with self._lock:
            await step()

    async def close(self, step: Step) -> None:
        """Runs a close, after a start that is under way, or waits for the one that has begun."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._close(step))
        await asyncio.shield(self._closing)

    async def _close(self, step: Step) -> None:
        try:
            async with self._lock:
                await step()
        finally:
            self._closing = None
