"""Statistics of a consumer in the last minute and hour, by topic."""

from __future__ import annotations

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.rates import RateWindow

FAILED_SPAN_S = 3600.0
"""How far the count of failed messages looks back (`ConsumerStatsManager`)."""


class TopicStatistics:
    """How many messages of one topic were handled, and how many failed.

    Args:
        now_s: seconds of the clock.
    """

    __slots__ = ("failed", "failed_in_hour", "handled")

    def __init__(self, now_s: float) -> None:
        self.handled = RateWindow(now_s)
        """Messages that the listener handled, and how many seconds it took for each batch."""
        self.failed = RateWindow(now_s)
        self.failed_in_hour = RateWindow(now_s, FAILED_SPAN_S)


class ConsumeStatistics:
    """Counts the messages that a listener was given, by topic.

    Args:
        clock: by which minutes are measured.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[str, TopicStatistics] = {}

    def handled(self, topic: str, count: int, spent_s: float, *, is_success: bool) -> None:
        """Counts a batch that was handled or has failed."""
        now_s = self._clock.monotonic()
        figures = self._topics.get(topic)
        if figures is None:
            figures = self._topics[topic] = TopicStatistics(now_s)
        if is_success:
            figures.handled.add(now_s, count, spent_s)
        else:
            figures.failed.add(now_s, count, spent_s)
            figures.failed_in_hour.add(now_s, count)

    def of(self, topic: str) -> TopicStatistics:
        """Returns the statistics of a topic."""
        return self._topics.get(topic) or TopicStatistics(self._clock.monotonic())
