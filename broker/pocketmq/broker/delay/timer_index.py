"""Orders the timer messages that wait by the time at which they are due: 16 bytes each."""

from __future__ import annotations

import heapq
from array import array
from collections import Counter
from collections.abc import Iterator, Sequence

SPLIT_PER_STEP_MAX = 4096
"""Entries that one step moves from a bucket to finer ones, so that sends and pulls get theirs."""

_WIDTHS_MS = (1000, 60_000, 3_600_000, 86_400_000)
_LEADS_MS = (2000, 10_000, 60_000, 600_000)
"""How long before its beginning a bucket is taken apart; enough for a million entries."""

_ITEM_BITS = 48
ITEM_MAX = (1 << _ITEM_BITS) - 1
_NEVER_MS = 1 << 62

_Buckets = dict[int, "array[int]"]


class TimerIndex:
    """A hierarchy of buckets: days, hours, minutes, seconds, and a heap of what is due at once.

    A bucket is an unsorted array; shortly before its time it is taken apart into finer ones, and a
    second into the heap, a bounded number of entries a step. So adding costs the same whatever
    waits, memory is what the numbers need, and nothing but the heap is ever sorted.

    Args:
        slot_ms: width of the slots in which waiting messages are counted; 0 for no counting.
    """

    def __init__(self, slot_ms: int = 0) -> None:
        self._heap: list[int] = []
        self._levels: tuple[_Buckets, ...] = tuple({} for _ in _WIDTHS_MS)
        self._firsts_ms = [_NEVER_MS] * len(_WIDTHS_MS)
        self._opened_ms = [0] * len(_WIDTHS_MS)
        self._splitting: array[int] = array("q")
        self._split_to = 0
        self._slot_ms = slot_ms
        self._slots: Counter[int] = Counter()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, due_ms: int, item: int) -> None:
        """Adds an item, a number up to `ITEM_MAX`; items of equal times are ordered by it."""
        assert 0 <= item <= ITEM_MAX
        self._count += 1
        if self._slot_ms:
            self._slots[(due_ms - 1) // self._slot_ms] += 1
        self._place(due_ms, item)

    def _place(self, due_ms: int, item: int) -> None:
        for level in (3, 2, 1, 0):
            if due_ms >= self._opened_ms[level]:
                start_ms = due_ms - due_ms % _WIDTHS_MS[level]
                buckets = self._levels[level]
                bucket = buckets.get(start_ms)
                if bucket is None:
                    bucket = buckets[start_ms] = array("q")
                    self._firsts_ms[level] = min(self._firsts_ms[level], start_ms)
                bucket.append(due_ms)
                bucket.append(item)
                return
        heapq.heappush(self._heap, due_ms << _ITEM_BITS | item)

    def advance(self, now_ms: int) -> bool:
        """Does one step towards a time; returns whether all that is due by then can be popped."""
        if self._split_to < len(self._splitting):
            self._split()
            return False
        for level in (3, 2, 1, 0):
            start_ms = self._firsts_ms[level]
            if start_ms <= now_ms + _LEADS_MS[level]:
                buckets = self._levels[level]
                self._splitting, self._split_to = buckets.pop(start_ms), 0
                self._opened_ms[level] = max(self._opened_ms[level], start_ms + _WIDTHS_MS[level])
                self._firsts_ms[level] = min(buckets, default=_NEVER_MS)
                self._split()
                return False
        return True

    def _split(self) -> None:
        start, end = self._split_to, self._split_to + 2 * SPLIT_PER_STEP_MAX
        pairs = iter(self._splitting[start:end])
        for due_ms, item in zip(pairs, pairs, strict=True):
            self._place(due_ms, item)
        self._split_to = end
        if end >= len(self._splitting):
            self._splitting, self._split_to = array("q"), 0

    def pop(self, now_ms: int) -> tuple[int, int] | None:
        """The first (due time, item) that is due, once `advance` has said that all of them are
        there; None if none is.
        """
        if not self._heap or self._heap[0] >> _ITEM_BITS > now_ms:
            return None
        entry = heapq.heappop(self._heap)
        due_ms = entry >> _ITEM_BITS
        self._count -= 1
        if self._slot_ms:
            slot = (due_ms - 1) // self._slot_ms
            self._slots[slot] -= 1
            if not self._slots[slot]:
                del self._slots[slot]
        return due_ms, entry & ITEM_MAX

    def count_near(self, due_ms: int) -> int:
        """Counts the items that wait in the slot of a time."""
        return self._slots[(due_ms - 1) // self._slot_ms] if self._slot_ms else 0

    def groups(self) -> Iterator[tuple[int, int, Sequence[int]]]:
        """Yields (first time, last time, due times) of groups that together are all items.

        The index may change between two groups.
        """
        heap = [entry >> _ITEM_BITS for entry in self._heap]
        if heap:
            yield heap[0], max(heap), heap
        if self._split_to < len(self._splitting):
            rest = self._splitting[self._split_to :: 2]
            yield min(rest), max(rest), rest
        for width_ms, buckets in zip(_WIDTHS_MS, self._levels, strict=True):
            for start_ms, bucket in list(buckets.items()):
                yield start_ms, start_ms + width_ms - 1, bucket[::2]

    def next_ms(self) -> int | None:
        """Returns when `advance` has something to do again; None if never."""
        if not self._count:
            return None
        next_ms = self._heap[0] >> _ITEM_BITS if self._heap else _NEVER_MS
        for first_ms, lead_ms in zip(self._firsts_ms, _LEADS_MS, strict=True):
            next_ms = min(next_ms, first_ms - lead_ms)
        return next_ms
