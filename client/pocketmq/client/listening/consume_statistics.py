"""How much a consumer handles: figures of the last minute and hour, by topic."""

from __future__ import annotations

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.rates import Window

FAILED_SPAN_S = 3600.0
"""How far the count of failed messages looks back (`ConsumerStatsManager`)."""


class TopicFigures:
    """What became of one topic's messages.

    Args:
        now_s: seconds of the clock.
    """

    __slots__ = ("failed", "failed_in_hour", "handled")

    def __init__(self, now_s: float) -> None:
        self.handled = Window(now_s)
        """Messages that the listener handled, and how many seconds it took for each batch."""
        self.failed = Window(now_s)
        self.failed_in_hour = Window(now_s, FAILED_SPAN_S)


class ConsumeFigures:
    """What became of the messages that a listener was given.

    Args:
        clock: by which minutes are measured.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicFigures] = {}

    def handled(self, topic: str, count: int, spent_s: float, *, is_success: bool) -> None:
        """A batch was handled, or not."""
        now_s = self._clock.monotonic()
        figures = self._topics.get(topic)
        if figures is None:
            figures = self._topics[topic] = TopicFigures(now_s)
        if is_success:
            figures.handled.add(now_s, count, spent_s)
        else:
            figures.failed.add(now_s, count, spent_s)
            figures.failed_in_hour.add(now_s, count)

    def of(self, topic: str) -> TopicFigures:
        """The figures of a topic."""
        return self._topics.get(topic) or TopicFigures(self._clock.monotonic())
