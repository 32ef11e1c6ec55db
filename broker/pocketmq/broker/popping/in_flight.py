"""The messages of one queue that a group has popped and neither acknowledged nor given back."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

PAGE_SIZE = 32
"""Offsets of a page: as many as one pop takes at the most."""

_DUE, _POPPED, _ARMED, _COUNT = 0, PAGE_SIZE, 2 * PAGE_SIZE, 2 * PAGE_SIZE + 1
_EMPTY_PAGE = bytes((2 * PAGE_SIZE + 2) * 8)

SPARSE_PAGES_MAX = 64
"""Up to so many pages the first one is found by a look at all of them."""


class Popped(NamedTuple):
    """A message in flight.

    Attributes:
        offset: in its queue.
        due_ms: when others may get it, in milliseconds since the epoch.
        pop_ms: when it was popped, or when its invisible time was last set.
        is_suspended: whether its next delivery does not count as another attempt.
    """

    offset: int
    due_ms: int
    pop_ms: int
    is_suspended: bool


class InFlight:
    """Offsets in flight with their times, some 20 bytes each where offsets are neighbours.

    A page of neighbouring offsets is an array: when each is due (times two, plus one if it is
    suspended; 0 if it is not in flight), when each was popped, for when the page is armed, and how
    many of its offsets are in flight.

    Attributes:
        count: how many are in flight.
    """

    __slots__ = ("_first_page", "_pages", "count")

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}
        self._first_page = 0
        self.count = 0

    def __contains__(self, offset: int) -> bool:
        page = self._pages.get(offset // PAGE_SIZE)
        return page is not None and page[offset % PAGE_SIZE] != 0

    def __iter__(self) -> Iterator[Popped]:
        for number in sorted(self._pages):
            yield from self.of_page(number)

    def of_page(self, number: int) -> list[Popped]:
        """The messages of a page, in order."""
        page, base = self._pages.get(number), number * PAGE_SIZE
        if page is None:
            return []
        return [
            Popped(base + at, page[at] >> 1, page[_POPPED + at], bool(page[at] & 1))
            for at in range(PAGE_SIZE)
            if page[at]
        ]

    @property
    def page_numbers(self) -> list[int]:
        """The pages that have messages in flight."""
        return sorted(self._pages)

    @property
    def page_count(self) -> int:
        """How many pages there are: what the memory goes by."""
        return len(self._pages)

    @property
    def first(self) -> int | None:
        """The first offset in flight; None without any."""
        if not self._pages:
            return None
        if self._first_page not in self._pages:
            if len(self._pages) <= SPARSE_PAGES_MAX:
                self._first_page = min(self._pages)
            else:
                while self._first_page not in self._pages:
                    self._first_page += 1
        page = self._pages[self._first_page]
        for at in range(PAGE_SIZE):
            if page[at]:
                return self._first_page * PAGE_SIZE + at
        raise AssertionError("a page without messages is removed")

    def put(self, offset: int, due_ms: int, pop_ms: int, *, is_suspended: bool = False) -> bool:
        """Enters an offset, or sets its times anew; whether `arm` must be asked about its page."""
        number, at = divmod(offset, PAGE_SIZE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = array("q", _EMPTY_PAGE)
            if number < self._first_page or len(self._pages) == 1:
                self._first_page = number
        if not page[at]:
            self.count += 1
            page[_COUNT] += 1
        page[at] = due_ms << 1 | is_suspended
        page[_POPPED + at] = pop_ms
        return not page[_ARMED] or due_ms < page[_ARMED]

    def discard(self, offset: int) -> bool:
        """Takes an offset out; False if it was not in flight."""
        number, at = divmod(offset, PAGE_SIZE)
        page = self._pages.get(number)
        if page is None or not page[at]:
            return False
        page[at] = 0
        self.count -= 1
        page[_COUNT] -= 1
        if not page[_COUNT]:
            del self._pages[number]
        return True

    def discard_before(self, offset: int) -> None:
        """Takes out all offsets before one."""
        for number in [n for n in self._pages if n * PAGE_SIZE < offset]:
            for popped in self.of_page(number):
                if popped.offset < offset:
                    self.discard(popped.offset)

    def clear(self) -> None:
        """Takes out all of them."""
        self._pages.clear()
        self.count = 0

    @staticmethod
    def page_of(offset: int) -> int:
        """The number of the page that has an offset."""
        return offset // PAGE_SIZE

    # -- when pages are due -------------------------------------------------------------------

    def arm(self, number: int) -> int | None:
        """Arms a page for its first due message and returns when that is, or None if it has none.

        Whoever keeps the times of pages gets each page once: one that is armed for another time by
        then is not meant any more, see `disarm`.
        """
        page = self._pages.get(number)
        if page is None:
            return None
        due = min(value for value in page[:PAGE_SIZE] if value) >> 1
        page[_ARMED] = due
        return due

    def is_armed(self, number: int, due_ms: int) -> bool:
        """Whether a page is armed for a time."""
        page = self._pages.get(number)
        return page is not None and page[_ARMED] == due_ms

    def disarm(self, number: int, due_ms: int) -> bool:
        """Whether a page is armed for a time; it is not any more, and must be armed again."""
        page = self._pages.get(number)
        if page is None or page[_ARMED] != due_ms:
            return False
        page[_ARMED] = 0
        return True
