"""Figures that are counted as things happen: histograms and counts by label values, bounded."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from pocketmq.runtime.metrics.exposition import Exposition, Family

KeyT = TypeVar("KeyT")

SERIES_MAX = 1000
"""Label sets of a family that are counted apart; what belongs to further ones is not shown."""


class Histogram:
    """How many values fell into each bucket, and their sum.

    Args:
        bounds: the upper bounds of the buckets, but for the infinite one.

    Attributes:
        counts: of each bucket alone, the infinite one last.
        total: the sum of the values.
    """

    __slots__ = ("_bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total: float = 0

    def observe(self, value: float) -> None:
        """Counts a value."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    def observe_all(self, values: Sequence[float]) -> None:
        """Counts values, of which most fall into the first bucket."""
        if max(values, default=0) <= self._bounds[0]:
            self.counts[0] += len(values)
        else:
            for value in values:
                self.counts[bisect_left(self._bounds, value)] += 1
        self.total += sum(values)


class Histograms(dict[KeyT, Histogram]):
    """The histograms of a family by what their labels are made of.

    Args:
        family: has the bounds.
        series_max: histograms that are kept.
        key_of: brings what is asked for in a form that has a bounded number of values.

    Attributes:
        family: whose histograms they are.
    """

    def __init__(
        self,
        family: Family,
        series_max: int = SERIES_MAX,
        key_of: Callable[[KeyT], KeyT] | None = None,
    ) -> None:
        super().__init__()
        self.family = family
        self._series_max, self._key_of = series_max, key_of
        self._not_shown = Histogram(family.bounds)

    def __missing__(self, key: KeyT) -> Histogram:
        if self._key_of is not None:
            key = self._key_of(key)
            found = self.get(key)
            if found is not None:
                return found
        if len(self) >= self._series_max:
            return self._not_shown
        histogram = self[key] = Histogram(self.family.bounds)
        return histogram

    def keep(self, is_kept: Callable[[KeyT], bool]) -> None:
        """Forgets the histograms of all keys but some."""
        for key in [key for key in self if not is_kept(key)]:
            del self[key]

    def write(self, out: Exposition, labels: Callable[[KeyT], str]) -> Iterator[int]:
        """Writes the family; yields the work.

        Args:
            out: the scrape.
            labels: makes the text of a key's labels.
        """
        out.begin(self.family)
        work = len(self.family.bounds) + 3
        for key, histogram in list(self.items()):
            out.histogram(labels(key), self.family, histogram.counts, histogram.total)
            yield work


class Counts(Generic[KeyT]):
    """The counts of a family by what their labels are made of.

    Args:
        family: a counter.
        series_max: counts that are kept.
    """

    def __init__(self, family: Family, series_max: int = SERIES_MAX) -> None:
        self.family = family
        self._series_max = series_max
        self._counts: dict[KeyT, float] = {}

    def add(self, key: KeyT, amount: float = 1) -> None:
        """Adds to the count of a key."""
        counts = self._counts
        if key in counts or len(counts) < self._series_max:
            counts[key] = counts.get(key, 0) + amount

    def keep(self, is_kept: Callable[[KeyT], bool]) -> None:
        """Forgets the counts of all keys but some."""
        self._counts = {key: count for key, count in self._counts.items() if is_kept(key)}

    def write(self, out: Exposition, labels: Callable[[KeyT], str]) -> Iterator[int]:
        """Writes the family; yields the work."""
        out.begin(self.family)
        for key, count in list(self._counts.items()):
            out.sample(labels(key), count)
            yield 1
