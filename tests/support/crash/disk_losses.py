"""The losses of a crash: what it takes of that which was not synced.

What a power cut may do here: of the writes and truncations of a file since its last `sync` any may
be lost, wholly or partly, and leave zeros where the file grew; of the changes of a directory since
its last `sync_directory` the last ones may be lost (file systems keep their order within a
directory); SQLite's log file ends anywhere behind its last sync.
What a killed process leaves is everything.
"""

from __future__ import annotations

import random
from typing import NamedTuple

SECTOR = 512


class Part(NamedTuple):
    """What is left of a write: so many bytes of the file's length, and of the data these ranges."""

    size: int
    ranges: list[tuple[int, int]]

    @classmethod
    def first(cls, size: int) -> Part:
        """The first so many bytes."""
        return cls(size, [(0, size)])


class Loss:
    """What a crash takes of that which was not synced: nothing, as when a process is killed."""

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        """What is left of a write of so many bytes; None for nothing.

        `is_last`: of all writes; `is_tail`: of all of its file.
        """
        return Part.first(size)

    def cut(self) -> bool:
        """Whether a truncation happened."""
        return True

    def entries(self, count: int) -> int:
        """How many of so many changes of a directory happened."""
        return count

    def log(self, low: int, high: int) -> int:
        """How long SQLite's log file is."""
        return high


class Everything(Loss):
    """The power goes, and nothing is left that was not synced."""

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return None

    def cut(self) -> bool:
        return False

    def entries(self, count: int) -> int:
        return 0

    def log(self, low: int, high: int) -> int:
        return low


class Content(Loss):
    """Names and metadata are there, but nothing of the content, or zeros."""

    def __init__(self, *, as_zeros: bool) -> None:
        self._as_zeros = as_zeros

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return Part(size, []) if self._as_zeros else None


class Torn(Loss):
    """Everything but a part of the last write is there."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        return Part.first(self._chance.randrange(size + 1) if is_last else size)


class Metadata(Loss):
    """Only transactions are lost."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def log(self, low: int, high: int) -> int:
        return self._chance.choice([low, self._chance.randint(low, high)])


class Anything(Loss):
    """Each change for itself is there, not there, or partly."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._kept = chance.random()

    def written(self, size: int, *, is_last: bool, is_tail: bool) -> Part | None:
        chance = self._chance
        if chance.random() < self._kept:
            return Part.first(size)
        how = chance.randrange(4)
        if how == 0:
            return None
        if how == 1:
            return Part(size, [])
        if how == 2 and is_tail:
            return Part.first(chance.randrange(size + 1))
        sectors = [(at, min(at + SECTOR, size)) for at in range(0, size, SECTOR)]
        return Part(size, [sector for sector in sectors if chance.random() < 0.5])

    def cut(self) -> bool:
        return self._chance.random() < self._kept

    def entries(self, count: int) -> int:
        return count if self._chance.random() < self._kept else self._chance.randint(0, count)

    def log(self, low: int, high: int) -> int:
        return high if self._chance.random() < self._kept else self._chance.randint(low, high)
