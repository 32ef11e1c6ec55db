"""How much of what all peers of a server send is taken in one turn of the loop.

Without it a turn lasts as long as everything takes that has come: a second, if fifty peers have
sent five hundred requests each, in which nobody is answered and no timer fires.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

FRAMES_PER_ITERATION_MAX = 256
"""Frames of all connections together: sends take 5 to 20 ms, and less the writes they ask for."""


class WaitingConnection(Protocol):
    """A connection, as far as it takes frames."""

    def take_more(self) -> None:
        """Takes what is left of the turn's frames, or has itself put off again."""


class FrameShare:
    """Counts the frames of a turn, and has those wait, in order of arrival, that come too late.

    Until half of the share is taken nobody looks whether the turn is over, which would cost a lone
    sender another round of the loop with each request: part of a share may be of earlier turns.

    Args:
        frames_max: of one turn.

    Attributes:
        left: frames that may still be taken in this turn; at 0 whoever has some is to be put off.
    """

    def __init__(self, frames_max: int = FRAMES_PER_ITERATION_MAX) -> None:
        self._frames_max = self.frames_left = frames_max
        self._waiting: deque[WaitingConnection] = deque()
        self._is_counting = False

    def took(self, count: int) -> None:
        """Notes that so many frames were taken."""
        self.frames_left -= count
        if self.frames_left <= self._frames_max // 2 and not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._end_turn)

    def put_off(self, connection: WaitingConnection) -> None:
        """Has a connection called in one of the next turns."""
        self._waiting.append(connection)

    def _end_turn(self) -> None:
        if self._waiting:  # what was taken so far is to be written and answered first
            asyncio.get_running_loop().call_soon(self._take_turn)
        else:
            self._is_counting = False
            self.frames_left = self._frames_max

    def _take_turn(self) -> None:
        self.frames_left = self._frames_max
        try:
            while self._waiting and self.frames_left > 0:
                self._waiting.popleft().take_more()
        finally:  # a mistake with one connection must not leave the others waiting for ever
            asyncio.get_running_loop().call_soon(
                self._take_turn if self._waiting else self._end_turn
            )
