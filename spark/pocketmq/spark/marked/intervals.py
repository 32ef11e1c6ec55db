"""Sets of offsets that lie mostly side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Intervals:
    """A set of offsets, held as the fewest intervals.

    Args:
        ranges: pairs of a first offset and an end (exclusive), in any order; they may overlap.
    """

    __slots__ = ("_ends", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        pairs = np.array([r for r in ranges if r[0] < r[1]], np.int64).reshape(-1, 2)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        reach = np.maximum.accumulate(pairs[:, 1]) if len(pairs) else pairs[:, 1]
        begins = np.ones(len(pairs), bool)
        begins[1:] = pairs[1:, 0] > reach[:-1]
        self._starts: Ints = pairs[begins, 0]
        self._ends: Ints = reach[np.append(begins[1:], True)] if len(pairs) else reach

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(zip(self._starts.tolist(), self._ends.tolist(), strict=True))

    def __len__(self) -> int:
        return len(self._starts)

    def contains(self, offsets: Ints) -> npt.NDArray[np.bool_]:
        """Tells which of some offsets are in the set."""
        if len(self._starts) == 0:
            return np.zeros(len(offsets), bool)
        at = np.searchsorted(self._starts, offsets, "right") - 1
        found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < self._ends[at])
        return found
