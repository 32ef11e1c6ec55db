"""Samples of counters. Rates are computed on reading, so that counting stays cheap."""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import NamedTuple

_time_of = itemgetter(0)


class Growth(NamedTuple):
    """The growth of counters, and the seconds in which they grew."""

    elapsed_s: float
    amounts: tuple[int, ...]

    def per_second(self, index: int) -> float:
        """Returns the growth of one counter per second."""
        return self.amounts[index] / self.elapsed_s


class History:
    """Samples of counters that only grow.

    A sample is kept only if something has changed, so that what rests costs one sample.

    Args:
        span_s: how far it looks back.
        step_s: from one sample to the next, and the shortest time that a rate is of, so that
            young rates are no peaks.
        now_s: seconds of a clock that never goes back.
        amounts: what the counters stand at.
    """

    __slots__ = ("_samples", "_span_s", "_step_s")

    def __init__(
        self, span_s: float, step_s: float, now_s: float, amounts: tuple[int, ...]
    ) -> None:
        self._span_s, self._step_s = span_s, step_s
        self._samples = [(now_s, amounts)]

    def take(self, now_s: float, amounts: tuple[int, ...]) -> None:
        """Takes a sample of the counters; called every `step_s`."""
        samples = self._samples
        if samples[-1][1] != amounts:
            samples.append((now_s, amounts))
        old = bisect_right(samples, now_s - self._span_s, key=_time_of) - 1
        if old > 0:
            del samples[:old]

    def growth(self, now_s: float, amounts: tuple[int, ...], span_s: float | None = None) -> Growth:
        """Computes how much the counters have grown in the time before now.

        Args:
            now_s, amounts: now.
            span_s: how far to look back, `span_s` of this history at the most.
        """
        span_s = self._span_s if span_s is None else span_s
        begin_s = now_s - span_s
        samples = self._samples
        base_s, base = samples[max(bisect_right(samples, begin_s, key=_time_of) - 1, 0)]
        if base_s < begin_s - self._step_s:
            base_s = begin_s  # they rested since that sample
        grown = tuple(a - b for a, b in zip(amounts, base, strict=True))
        return Growth(max(now_s - base_s, self._step_s, 1.0), grown)
