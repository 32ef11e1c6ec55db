"""Counters of the messages of a topic, or of a group in a topic."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from pocketmq.broker.counters.history import Growth, History
from pocketmq.runtime.clock import Clock

KeyT = TypeVar("KeyT")


class Window(NamedTuple):
    """Seconds that a window looks back, and seconds between its samples."""

    span_s: float
    step_s: float


MINUTE, HOUR, DAY = Window(60, 10), Window(3600, 600), Window(86_400, 3600)
"""The windows that RocketMQ's tools ask for (`StatsItem`)."""

REQUESTS, MESSAGES, SIZE = range(3)
"""Places of the amounts in a `Growth`."""


class Traffic:
    """Counts requests, messages and bytes, and keeps samples of the counts.

    Args:
        now_s: seconds of a clock that never goes back.
    """

    __slots__ = ("_histories", "messages", "requests", "size")

    def __init__(self, now_s: float) -> None:
        self.requests = self.messages = self.size = 0
        self._histories = {
            window: History(*window, now_s, (0, 0, 0)) for window in (MINUTE, HOUR, DAY)
        }

    def sample(self, now_s: float, window: Window) -> None:
        """Takes a sample of the counters for one window."""
        self._histories[window].take(now_s, (self.requests, self.messages, self.size))

    def growth(self, now_s: float, window: Window) -> Growth:
        """Returns how much requests, messages and bytes have grown in a window."""
        amounts = (self.requests, self.messages, self.size)
        return self._histories[window].growth(now_s, amounts)


class TrafficTable(dict[KeyT, Traffic]):
    """Traffic by key; a key that is new begins at 0.

    Args:
        clock: for the windows.
    """

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def __missing__(self, key: KeyT) -> Traffic:
        traffic = self[key] = Traffic(self._clock.monotonic())
        return traffic

    def per_second(self, key: KeyT) -> float:
        """Messages a second in the last minute."""
        traffic = self.get(key)
        if traffic is None:
            return 0.0
        return traffic.growth(self._clock.monotonic(), MINUTE).per_second(MESSAGES)
