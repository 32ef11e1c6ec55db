"""What became of dead letters: two bits for each, in the metadata."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.bodies.redrives import LetterState

PREFIX = "redrive_marks_"
"""How the keys of pages begin in the metadata: the log's number and the page's follow."""

LETTERS_PER_PAGE = 8192
_BITS_SIZE = LETTERS_PER_PAGE // 8
_MARKS = (LetterState.REDRIVEN, LetterState.DISCARDED)

_Page = tuple[bytearray, bytearray]


class LetterMarks:
    """Says of each dead letter whether it was redriven or discarded.

    A log's number is never given to another log, so a dead-letter topic that is deleted and made
    again begins without marks.

    Args:
        metadata: where the marks are kept.
    """

    def __init__(self, metadata: Metadata) -> None:
        self._pages: dict[int, dict[int, _Page]] = {}
        self._changed: set[tuple[int, int]] = set()
        for key, text in metadata.states(PREFIX).items():
            number, page = map(int, key.removeprefix(PREFIX).split("_"))
            bits = msgspec.json.decode(text, type=bytes)  # base64, as all of JSON's bytes
            parts = bytearray(bits[:_BITS_SIZE]), bytearray(bits[_BITS_SIZE:])
            self._pages.setdefault(number, {})[page] = parts

    @property
    def numbers(self) -> set[int]:
        """The numbers of the logs that have marks."""
        return set(self._pages)

    def state_of(self, number: int, offset: int) -> LetterState:
        """Returns what became of the dead letter at an offset of a log."""
        page, bit = divmod(offset, LETTERS_PER_PAGE)
        parts = self._pages.get(number, {}).get(page)
        if parts is not None:
            for state, bits in zip(_MARKS, parts, strict=True):
                if bits[bit >> 3] >> (bit & 7) & 1:
                    return state
        return LetterState.OPEN

    def mark(self, number: int, offset: int, state: LetterState) -> None:
        """Notes what became of a dead letter; `rows` has the change from now on."""
        page, bit = divmod(offset, LETTERS_PER_PAGE)
        pages = self._pages.setdefault(number, {})
        parts = pages.get(page)
        if parts is None:
            parts = pages[page] = bytearray(_BITS_SIZE), bytearray(_BITS_SIZE)
        for kind, bits in zip(_MARKS, parts, strict=True):
            if kind is state:
                bits[bit >> 3] |= 1 << (bit & 7)
            else:
                bits[bit >> 3] &= ~(1 << (bit & 7))
        self._changed.add((number, page))

    def count(self, number: int, begin: int, end: int) -> dict[LetterState, int]:
        """Counts the dead letters of a log from one offset to before another, by state."""
        counts = dict.fromkeys(_MARKS, 0)
        for page, parts in self._pages.get(number, {}).items():
            first = page * LETTERS_PER_PAGE
            low, high = max(begin - first, 0), min(end - first, LETTERS_PER_PAGE)
            if low >= high:
                continue
            for state, bits in zip(_MARKS, parts, strict=True):
                whole = int.from_bytes(bits, "little") >> low & (1 << high - low) - 1
                counts[state] += whole.bit_count()
        marked = sum(counts.values())
        return {LetterState.OPEN: max(end - begin, 0) - marked, **counts}

    def rows(self) -> list[tuple[str, str]]:
        """Takes the pages that have changed, as keys and values of the metadata."""
        changed, self._changed = self._changed, set()
        out = []
        for number, page in sorted(changed):
            parts = self._pages.get(number, {}).get(page)
            if parts is not None:
                out.append((_key(number, page), msgspec.json.encode(parts[0] + parts[1]).decode()))
        return out

    def put_back(self, rows: Iterable[tuple[str, str]]) -> None:
        """Has rows be taken once more, because they could not be written."""
        for key, _ in rows:
            number, page = map(int, key.removeprefix(PREFIX).split("_"))
            self._changed.add((number, page))

    def forget(self, number: int) -> list[str]:
        """Forgets a log; returns the keys that are to be removed."""
        return [_key(number, page) for page in self._pages.pop(number, {})]

    def cut(self, number: int, end: int) -> None:
        """Forgets the marks from an offset on, whose messages a power cut took from the log."""
        for page in [page for page in self._pages.get(number, {}) if
                     (page + 1) * LETTERS_PER_PAGE > end]:  # fmt: skip
            first = page * LETTERS_PER_PAGE
            for offset in range(max(first, end), first + LETTERS_PER_PAGE):
                if self.state_of(number, offset) is not LetterState.OPEN:
                    self.mark(number, offset, LetterState.OPEN)


def _key(number: int, page: int) -> str:
    return f"{PREFIX}{number}_{page}"
