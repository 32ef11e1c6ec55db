"""Bounds what the SQL92 filters of held pulls take of the memory."""

from __future__ import annotations

from pocketmq.broker.reading.filters import Selection

HELD_FILTERS_LENGTH_MAX = 1024 * 1024
"""Characters of different expressions of held pulls; compiled they take about 200 times as much."""


class HeldFilters:
    """The filters of held pulls: one for each text, however many pulls have it.

    Args:
        length_max: characters of all texts together.

    Attributes:
        length: those of the texts that are held.
    """

    def __init__(self, length_max: int = HELD_FILTERS_LENGTH_MAX) -> None:
        self._length_max = length_max
        self.length = 0
        self._held: dict[str, tuple[Selection, int]] = {}

    def take(self, selection: Selection) -> Selection | None:
        """Returns the filter that a pull is to be held with; None if there is no room for it."""
        if selection.work is None:
            return selection
        text = selection.work.text
        shared, count = self._held.get(text, (selection, 0))
        if not count:
            if self.length + len(text) > self._length_max:
                return None
            self.length += len(text)
        self._held[text] = shared, count + 1
        return shared

    def give_back(self, selection: Selection) -> None:
        """Forgets the filter of a pull that is no longer held, with the last pull that has it."""
        if selection.work is None:
            return
        text = selection.work.text
        shared, count = self._held.pop(text)
        if count > 1:
            self._held[text] = shared, count - 1
        else:
            self.length -= len(text)
