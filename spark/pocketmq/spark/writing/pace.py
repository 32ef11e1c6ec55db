"""Limits how many rows a writing task sends in a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.process import run

PIECES_PER_S = 10
"""How finely the rows of a second are spread over it."""


class Pace:
    """Cuts blocks of rows into pieces and lets them through no faster than a rate.

    Time that was lost is not made up for: after a pause of the source the rate is the same.

    Args:
        rows_per_s: the rate; 0 for none.
        clock: for the pauses.
    """

    def __init__(self, rows_per_s: int, clock: Clock) -> None:
        self._rows_per_s, self._clock = rows_per_s, clock
        self._due = clock.monotonic()

    def pieces(self, block: Any) -> Iterator[Any]:
        """Yields the pieces of a block of rows, each when it is due."""
        if not self._rows_per_s:
            yield block
            return
        size = max(1, self._rows_per_s // PIECES_PER_S)
        for first in range(0, block.num_rows, size):
            piece = block.slice(first, size)
            if (pause_s := self.pause_s(piece.num_rows)) > 0:
                run(self._clock.sleep(pause_s))
            yield piece

    def pause_s(self, rows: int) -> float:
        """Returns how long to wait before sending rows, and counts them as sent."""
        now = self._clock.monotonic()
        begin = max(self._due, now)
        self._due = begin + rows / self._rows_per_s
        return begin - now
