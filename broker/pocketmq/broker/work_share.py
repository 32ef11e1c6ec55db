"""Bounds what costly requests of all clients do in one turn of the loop.

A read is costly when it looks at messages that it may not want, as with a filter, and when it wakes
a held pull; a send is when it has many messages. Without the bound one message for a queue with
fifty thousand held pulls, or a burst of pulls with filters, would hold up everybody for seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

WORK_PER_TURN_MAX = 100_000
"""Work of one turn, in units of about 0.1 µs; a read that has begun may add `SCAN_WORK_MAX`."""

WAKE_WORK = 250
"""The work of waking a held pull, or of answering one whose time is over."""


class WorkShare:
    """Counts the work of a turn, and queues the steps that come too late for the turn.

    Until half of the share is used, nothing looks whether the turn is over, so part of a share may
    be of earlier turns. While steps wait, each turn takes one of them, and further ones queue.

    Args:
        work_max: the work of one turn.

    Attributes:
        left: work that may still be done in this turn; a costly step waits unless it is above 0.
    """

    def __init__(self, work_max: int = WORK_PER_TURN_MAX) -> None:
        self._work_max = self.left = work_max
        self._waiting: deque[Callable[[], object]] = deque()
        self._is_counting = False

    def took(self, work: int) -> None:
        """Takes work that was done off the share of this turn."""
        self.left -= work
        if self.left <= self._work_max // 2 and not self._is_counting:
            self._count()

    def put_off(self, step: Callable[[], object]) -> None:
        """Queues a step, which gets a turn's whole share; it may put itself off again."""
        self._waiting.append(step)
        if not self._is_counting:
            self._count()

    async def turn(self) -> None:
        """Returns in a turn in which the caller may do a step."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def begin() -> None:
            if not future.done():  # whoever waited may be gone
                future.set_result(None)
                # The future's callbacks run in the next turn, which no other step may have.
                self._waiting.appendleft(lambda: None)

        self.put_off(begin)
        await future

    def _count(self) -> None:
        self._is_counting = True
        asyncio.get_running_loop().call_soon(self._next_turn)

    def _next_turn(self) -> None:
        self._is_counting = False
        self.left = self._work_max
        if not self._waiting:
            return
        try:
            self._waiting.popleft()()
        finally:  # a mistake in one step must not leave the others waiting for ever
            self.left = 0
            if not self._is_counting:
                self._count()
