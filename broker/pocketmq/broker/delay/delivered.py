"""The set of delivered messages of the timer topic: a bit for each message."""

from __future__ import annotations

import re

from pocketmq.broker.store.metadata.metadata import Metadata

PAGE_SIZE = 4096
OFFSETS_PER_PAGE = 8 * PAGE_SIZE

_FIRST_PAGE = "timer_first_page"
_PAGE_MAX = 1 << 62
_NOT_FULL = re.compile(rb"[^\xff]")


class DeliveredSet:
    """A set of queue offsets in pages; complete pages at the beginning are not kept.

    Timers are not delivered in the order in which they were sent, so one offset cannot say what is
    done. Only offsets whose copies are on the disk may be added (see `progress.Steps`).

    Args:
        metadata: where it is kept, by `save`.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._metadata = metadata
        self._first = int(metadata.state(_FIRST_PAGE) or 0)
        self._pages = {
            page: bytearray(bits)
            for page, bits in metadata.timer_pages().items()
            if page >= self._first
        }
        self._missing = {
            page: OFFSETS_PER_PAGE - int.from_bytes(bits, "big").bit_count() if bits else 0
            for page, bits in self._pages.items()
        }
        self._changed: set[int] = set()
        self._drop_complete()

    def __contains__(self, offset: int) -> bool:
        page, bit = divmod(offset, OFFSETS_PER_PAGE)
        if page < self._first:
            return True
        bits = self._pages.get(page)
        if bits is None:
            return False
        return not self._missing[page] or bool(bits[bit >> 3] >> (bit & 7) & 1)

    def add(self, offset: int) -> None:
        """Enters an offset."""
        if offset in self:
            return
        page, bit = divmod(offset, OFFSETS_PER_PAGE)
        bits = self._pages.get(page)
        if bits is None:
            bits = self._pages[page] = bytearray(PAGE_SIZE)
            self._missing[page] = OFFSETS_PER_PAGE
        bits[bit >> 3] |= 1 << (bit & 7)
        self._missing[page] -= 1
        self._changed.add(page)
        if not self._missing[page]:
            bits.clear()
            if page == self._first:
                self._drop_complete()

    def add_before(self, offset: int) -> None:
        """Enters everything before an offset."""
        page = offset // OFFSETS_PER_PAGE
        if page > self._first:
            for number in [number for number in self._pages if number < page]:
                del self._pages[number], self._missing[number]
            self._first = page
            self._drop_complete()
        while self.first_missing < offset:
            self.add(self.first_missing)

    def discard_from(self, offset: int) -> None:
        """Removes all offsets from one on, whose messages a power cut took from the log.

        The change is on the disk on return: other messages get those offsets now.

        Raises:
            WriteFailedError: it is not on the disk.
        """
        page, bit = divmod(offset, OFFSETS_PER_PAGE)
        if page < self._first or any(number >= page for number in self._pages):
            start = page * OFFSETS_PER_PAGE
            kept = [offset for offset in range(start, start + bit) if offset in self]
            for number in [number for number in self._pages if number >= page]:
                del self._pages[number], self._missing[number]
            self._changed = {number for number in self._changed if number < page}
            self._metadata.remove_timer_pages(page, _PAGE_MAX)
            self._first = min(self._first, page)
            for offset in kept:
                self.add(offset)
            self.save()
            self._metadata.sync()

    @property
    def first_missing(self) -> int:
        """The first offset that is not in the set."""
        return self.next_missing(0)

    def next_missing(self, offset: int) -> int:
        """The first offset, from one on, that is not in the set."""
        page, bit = divmod(max(offset, self._first * OFFSETS_PER_PAGE), OFFSETS_PER_PAGE)
        while (bits := self._pages.get(page)) is not None:
            if self._missing[page]:
                # The byte that holds the offset first, as if what is before it were delivered.
                byte = bits[bit >> 3] | (1 << (bit & 7)) - 1
                if byte == 0xFF:
                    found = _NOT_FULL.search(bits, (bit >> 3) + 1)
                    bit = found.start() * 8 if found else OFFSETS_PER_PAGE
                    byte = bits[bit >> 3] if found else 0xFF
                if bit < OFFSETS_PER_PAGE:
                    return page * OFFSETS_PER_PAGE + (bit & ~7) + _lowest_zero(byte)
            page, bit = page + 1, 0
        return page * OFFSETS_PER_PAGE + bit

    def is_untouched(self, offset: int) -> bool:
        """Whether nothing near an offset is in the set."""
        page = offset // OFFSETS_PER_PAGE
        return page >= self._first and page not in self._pages

    def _drop_complete(self) -> None:
        while self._missing.get(self._first) == 0:
            del self._pages[self._first], self._missing[self._first]
            self._changed.discard(self._first)
            self._first += 1

    def save(self) -> None:
        """Saves the pages that have changed.

        Raises:
            WriteFailedError: less of it is written down, which only repeats deliveries.
        """
        first = str(self._first)
        if not self._changed and first == (self._metadata.state(_FIRST_PAGE) or "0"):
            return
        changed, self._changed = self._changed, set()
        rows = [(page, bytes(self._pages[page])) for page in changed if page in self._pages]
        try:
            self._metadata.save_timer_pages(rows)
            self._metadata.set_state(_FIRST_PAGE, first)
            self._metadata.remove_timer_pages(0, self._first)
        except BaseException:
            self._changed |= changed
            raise


def _lowest_zero(byte: int) -> int:
    return (~byte & byte + 1).bit_length() - 1
