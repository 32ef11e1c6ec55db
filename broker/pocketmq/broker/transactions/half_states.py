"""What became of each half message: one byte each, from the oldest open one on."""

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
    """Half messages next to each other that are open: the first offset, and behind the last."""

    start: int
    end: int


class HalfMessageStates:
    """The state of every half message from `base` on; all before it are over.

    Args:
        base: an offset of the half queue.
        end: behind its last message; those between are open at first.
    """

    def __init__(self, base: int, end: int) -> None:
        self.base = base
        self._states = bytearray(end - base)

    @property
    def end(self) -> int:
        """Behind the last half message that is known."""
        return self.base + len(self._states)

    def grow(self, end: int) -> None:
        """The half queue ends there now."""
        if end > self.end:
            self._states += bytes(end - self.end)

    def state(self, offset: int) -> int | None:
        """What became of a half message; None if that was forgotten, since it is over."""
        index = offset - self.base
        return self._states[index] if 0 <= index < len(self._states) else None

    def set(self, offset: int, state: int) -> None:
        """Something becomes of a half message; what is before `base` stays over."""
        if self.base <= offset < self.end:
            self._states[offset - self.base] = state

    def reopen_from(self, offset: int) -> None:
        """All from an offset on are open again: it is other messages that stand there now."""
        index = max(0, offset - self.base)
        self._states[index:] = bytes(max(0, len(self._states) - index))

    def next_open(self, offset: int, end: int, count_max: int) -> OpenRange | None:
        """The first open half messages from an offset on; None if there are none before `end`."""
        low, high = max(offset, self.base) - self.base, end - self.base
        start = self._states.find(OPEN, low, high)
        if start < 0:
            return None
        window = self._states[start : min(start + count_max, high)]
        return OpenRange(
            self.base + start, self.base + start + len(window) - len(window.lstrip(b"\0"))
        )

    def advance(self) -> int:
        """Forgets what is over before the oldest that is not; returns `base`."""
        firsts = [at for at in map(self._states.find, (OPEN, ENDING)) if at >= 0]
        over = min(firsts, default=len(self._states))
        del self._states[:over]
        self.base += over
        return self.base

    def open_count(self) -> int:
        """How many are open."""
        return self._states.count(OPEN)
