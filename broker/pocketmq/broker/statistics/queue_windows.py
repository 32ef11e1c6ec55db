"""What single queues did in a window; only those that move are looked at (`enableDetailStat`)."""

from __future__ import annotations

from typing import Generic, TypeVar

from pocketmq.broker.counters.history import Growth, History
from pocketmq.broker.counters.traffic import DAY, HOUR, MINUTE, Window

KeyT = TypeVar("KeyT")

QUEUES_MAX = 4096
"""Queues that have windows, so that sampling all of them takes a few milliseconds of a turn."""


class QueueWindows(Generic[KeyT]):
    """Histories of counters that others keep, by queue.

    A queue has them from the first sample that finds it moving. With more than QUEUES_MAX of them
    the later ones are without.
    """

    def __init__(self) -> None:
        self._histories: dict[KeyT, dict[Window, History]] = {}

    def __contains__(self, key: KeyT) -> bool:
        return key in self._histories

    def take(
        self,
        now_s: float,
        window: Window,
        key: KeyT,
        amounts: tuple[int, ...],
        begin: tuple[int, ...] | None = None,
    ) -> None:
        """Notes where a queue's counters stand, for one window.

        Args:
            now_s: seconds of a clock that never goes back.
            window: the one whose samples are due.
            key: of the queue.
            amounts: what its counters stand at.
            begin: what they began at; without it, at 0.
        """
        histories = self._of(now_s, key, begin or (0,) * len(amounts))
        if histories is not None:
            histories[window].take(now_s, amounts)

    def growth(
        self,
        now_s: float,
        window: Window,
        key: KeyT,
        amounts: tuple[int, ...],
        begin: tuple[int, ...] | None = None,
    ) -> Growth | None:
        """What a queue did in a window; None if it has none. See `take`."""
        histories = self._of(now_s, key, begin or (0,) * len(amounts))
        return None if histories is None else histories[window].growth(now_s, amounts)

    def _of(self, now_s: float, key: KeyT, begin: tuple[int, ...]) -> dict[Window, History] | None:
        histories = self._histories.get(key)
        if histories is None and len(self._histories) < QUEUES_MAX:
            histories = self._histories[key] = {
                window: History(*window, now_s, begin) for window in (MINUTE, HOUR, DAY)
            }
        return histories

    def keep(self, keys: set[KeyT]) -> None:
        """Forgets all other queues."""
        for key in self._histories.keys() - keys:
            del self._histories[key]
