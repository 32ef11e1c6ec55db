"""Bounds the frames that a server takes in one iteration of the loop, of all peers together.

Without the bound an iteration lasts until all requests that have come are handled: a second, if
fifty peers have sent five hundred requests each, in which nobody is answered and no timer fires.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

FRAMES_PER_ITERATION_MAX = 256
"""Frames of all connections: handling so many sends takes 5 to 20 ms, without their writes."""


class WaitingConnection(Protocol):
    """What the share needs of a connection."""

    def take_more(self) -> None:
        """Takes frames that wait, up to the share; puts itself off again if more are left."""


class FrameShare:
    """Counts the frames of an iteration, and queues connections whose frames come too late.

    Until half of the share is taken, nothing looks whether the iteration is over, which would cost
    a lone sender another iteration for each request: so part of a share may be of earlier ones.

    Args:
        frames_max: frames of one iteration.

    Attributes:
        frames_left: frames that may still be taken in this iteration; at 0 connections put
            themselves off.
    """

    def __init__(self, frames_max: int = FRAMES_PER_ITERATION_MAX) -> None:
        self._frames_max = self.frames_left = frames_max
        self._waiting: deque[WaitingConnection] = deque()
        self._is_counting = False

    def took(self, count: int) -> None:
        """Takes a number of frames off the share of this iteration."""
        self.frames_left -= count
        if self.frames_left <= self._frames_max // 2 and not self._is_counting:
            self._count()

    def put_off(self, connection: WaitingConnection) -> None:
        """Queues a connection, to be called in one of the next iterations.

        It may have been kept from its frames by something else than the share, which nobody counts
        any more by now.
        """
        self._waiting.append(connection)
        if not self._is_counting:
            self._count()

    def _count(self) -> None:
        self._is_counting = True
        asyncio.get_running_loop().call_soon(self._end_iteration)

    def _end_iteration(self) -> None:
        if self._waiting:  # what was taken so far is to be written and answered first
            asyncio.get_running_loop().call_soon(self._take_waiting)
        else:
            self._is_counting = False
            self.frames_left = self._frames_max

    def _take_waiting(self) -> None:
        self.frames_left = self._frames_max
        try:
            while self._waiting and self.frames_left > 0:
                self._waiting.popleft().take_more()
        finally:  # a mistake with one connection must not leave the others waiting for ever
            asyncio.get_running_loop().call_soon(
                self._take_waiting if self._waiting else self._end_iteration
            )
