"""Starting and closing a producer or consumer: one at a time, and a close that has begun ends."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

Step = Callable[[], Awaitable[None]]


class Lifecycle:
    """Keeps the start and the close of one object apart.

    Those who close it together wait for the same close. One who is cancelled meanwhile only stops
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
