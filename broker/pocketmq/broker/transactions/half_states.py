"""Holds the state of each half message: one byte each, from the oldest open one on."""

from __future__ import annotations

from typing import NamedTuple

OPEN = 0
ENDING = 1
COMMITTED = 2
ROLLED_BACK = 3
MOVED = 4
GIVEN_UP = 5

OUTCOMES = {
    COMMITTED: "committed",
    ROLLED_BACK: "rolled back",
    MOVED: "continued by a later half message",
    GIVEN_UP: "given up after too many checks",
}


class OpenRange(NamedTuple):
    """The first offset of open half messages next to each other, and the one behind the last."""

    start: int
    end: int


class HalfMessageStates:
    """The states of the half messages from `base` on; all before it are ended.

    Args:
        base: an offset of the half queue.
        end: behind its last message; those between are open at first.
    """

    def __init__(self, base: int, end: int) -> None:
        self.base = base
        self._states = bytearray(end - base)

    @property
    def end(self) -> int:
        """The offset behind the last half message with a state."""
        return self.base + len(self._states)

    def grow(self, end: int) -> None:
        """Adds open half messages up to the end of the half queue."""
        if end > self.end:
            self._states += bytes(end - self.end)

    def state(self, offset: int) -> int | None:
        """Returns the state of a half message; None if it was forgotten, since it is ended."""
        index = offset - self.base
        return self._states[index] if 0 <= index < len(self._states) else None

    def set(self, offset: int, state: int) -> None:
        """Sets the state of a half message; one before `base` stays ended."""
        if self.base <= offset < self.end:
            self._states[offset - self.base] = state

    def reopen_from(self, offset: int) -> None:
        """Opens all from an offset on, since other messages stand there now."""
        index = max(0, offset - self.base)
        self._states[index:] = bytes(max(0, len(self._states) - index))

    def next_open(self, offset: int, end: int, count_max: int) -> OpenRange | None:
        """Returns the first open half messages from an offset on; None without any before `end`."""
        low, high = max(offset, self.base) - self.base, end - self.base
        start = self._states.find(OPEN, low, high)
        if start < 0:
            return None
        window = self._states[start : min(start + count_max, high)]
        return OpenRange(
            self.base + start, self.base + start + len(window) - len(window.lstrip(b"\0"))
        )

    def advance(self) -> int:
        """Forgets the ended half messages before the oldest open one; returns `base`."""
        firsts = [at for at in map(self._states.find, (OPEN, ENDING)) if at >= 0]
        over = min(firsts, default=len(self._states))
        del self._states[:over]
        self.base += over
        return self.base

    def open_count(self) -> int:
        """Counts the open half messages."""
        return self._states.count(OPEN)
