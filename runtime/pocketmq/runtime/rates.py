"""Rates of the last minute or hour, for the price of an addition per event."""

from __future__ import annotations

from collections import deque

BUCKETS = 6
"""Parts of a window; an event may count for up to one part longer than the window."""


class RateWindow:
    """Counts the events of the last so many seconds, the things they were about, and their cost.

    Nothing runs in the background: a window moves on when it is written or read.

    Args:
        now_s: seconds of a clock that never goes back; the window begins empty then.
        span_s: how far it looks back.
    """

    __slots__ = ("_begin_s", "_buckets", "_count", "_events", "_number", "_part_s", "_total")

    def __init__(self, now_s: float, span_s: float = 60.0) -> None:
        self._part_s = span_s / BUCKETS
        self._begin_s = now_s
        self._number = int(now_s / self._part_s)
        self._events, self._count, self._total = 0, 0, 0.0
        self._buckets: deque[tuple[int, int, int, float]] = deque()

    def add(self, now_s: float, count: int, cost: float = 0.0) -> None:
        """Counts one event of `count` things, which cost so much in all."""
        number = int(now_s / self._part_s)
        if number != self._number:
            self._move(number)
        self._events += 1
        self._count += count
        self._total += cost

    def _move(self, number: int) -> None:
        if self._events:
            self._buckets.append((self._number, self._events, self._count, self._total))
        self._number, self._events, self._count, self._total = number, 0, 0, 0.0
        while self._buckets and self._buckets[0][0] <= number - BUCKETS:
            self._buckets.popleft()

    def count(self, now_s: float) -> int:
        """Returns how many things there were."""
        self._look(now_s)
        return self._count + sum(count for _, _, count, _ in self._buckets)

    def mean_cost(self, now_s: float) -> float:
        """Returns what an event cost on average; 0 without events."""
        self._look(now_s)
        events = self._events + sum(events for _, events, _, _ in self._buckets)
        total = self._total + sum(total for _, _, _, total in self._buckets)
        return total / events if events else 0.0

    def _look(self, now_s: float) -> None:
        number = int(now_s / self._part_s)
        if number != self._number:
            self._move(number)

    def per_second(self, now_s: float) -> float:
        """Returns how many things there were a second."""
        count = self.count(now_s)
        span_s = now_s - max((self._number - BUCKETS + 1) * self._part_s, self._begin_s)
        return count / max(span_s, 1.0)
