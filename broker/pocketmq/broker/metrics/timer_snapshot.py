"""When the waiting timer messages are due (`DefaultStoreMetricsManager#timerMessageSnapshot`)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from pocketmq.broker.delay.timer_index import TimerIndex

BOUNDS_S = (5, 60, 300, 900, 3600, 14_400, 28_800, 86_400)
"""The ends of the spans that are told apart (`TimerMetrics#timerDist`); later ones do not count."""

LOOKS_MAX = 5000
"""Messages of one bucket that are looked at one by one; of more, as many stand for all of them."""

LOOKS_PER_SLICE = 500


def snapshot(index: TimerIndex, now_ms: int, counts: list[int]) -> Iterator[int]:
    """Counts the messages that are due in each span; yields the work.

    Args:
        index: of the broker.
        now_ms: the time.
        counts: of each of `BOUNDS_S`, from 0; the result is added to it.
    """
    ends_ms = [now_ms + bound * 1000 for bound in BOUNDS_S]
    found = [*counts, 0]
    for first_ms, last_ms, times in index.groups():
        place = bisect_left(ends_ms, first_ms)
        if place == bisect_left(ends_ms, last_ms):
            found[place] += len(times)
            yield 1
            continue
        step = -(-len(times) // LOOKS_MAX)
        for start in range(0, len(times), step * LOOKS_PER_SLICE):
            part = times[start : start + step * LOOKS_PER_SLICE]
            weight, rest = divmod(len(part), len(range(0, len(part), step)))
            for due_ms in part[::step]:
                found[bisect_left(ends_ms, due_ms)] += weight
            found[place] += rest
            yield LOOKS_PER_SLICE
    counts[:] = found[:-1]
