"""Rates over time, computed of samples."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from pocketmq.console.api.rates.bodies import RatePoint, Sample

STEP_S = 5.0
"""Seconds from one sample to the next."""

SPAN_S = 600.0
"""Seconds that are kept; a history that nobody has asked for in this time is forgotten."""


class History:
    """The rates of one subject.

    Args:
        first: what the counters stood at.
        now_s: when; seconds of a clock that never goes back.

    Attributes:
        points: the last steps.
        asked_s: when somebody last asked for them.
    """

    def __init__(self, first: Sample, now_s: float) -> None:
        self._last, self._last_s = first, now_s
        self.points: deque[RatePoint] = deque(maxlen=round(SPAN_S / STEP_S))
        self.asked_s = now_s

    def take(self, found: Sample | None, now_s: float, now_ms: int) -> None:
        """Adds a step.

        Args:
            found: what the counters stand at; None if nobody could tell.
            now_s, now_ms: when, by the two clocks.
        """
        point = RatePoint(time_ms=now_ms)
        if found is not None:
            elapsed_s = now_s - self._last_s
            point.in_rate = _rate(self._last.stored, found.stored, elapsed_s)
            point.out_rate = _rate(self._last.gone, found.gone, elapsed_s)
            point.left = found.left
            self._last, self._last_s = found, now_s
        self.points.append(point)


def _rate(before: Mapping[str, int], now: Mapping[str, int], elapsed_s: float) -> float | None:
    """The growth of counters; a source that is new, or has begun anew, has not grown."""
    both = before.keys() & now.keys()
    if not both or elapsed_s <= 0:
        return None
    return sum(max(now[source] - before[source], 0) for source in both) / elapsed_s
