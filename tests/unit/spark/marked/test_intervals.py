"""A set of offsets given as ranges holds just what the ranges hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.spark.marked.intervals import Intervals

RANGES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


@given(RANGES)
def test_it_holds_what_its_ranges_hold(ranges: list[tuple[int, int]]) -> None:
    found = Intervals(ranges).contains(np.arange(50))
    assert found.tolist() == [any(a <= o < b for a, b in ranges) for o in range(50)]


@given(RANGES)
def test_it_is_the_fewest_intervals(ranges: list[tuple[int, int]]) -> None:
    intervals = list(Intervals(ranges))
    flat = [offset for pair in intervals for offset in pair]
    assert flat == sorted(set(flat)), "in order, and neither touching nor empty"
    assert len(Intervals(ranges)) == len(intervals)


def test_an_empty_set() -> None:
    assert list(Intervals()) == []
    assert not Intervals().contains(np.arange(3)).any()
