from __future__ import annotations

from pocketmq.client.listening.consume_statistics import ConsumeStatistics
from pocketmq.testing.clock import VirtualClock


async def test_figures_are_of_the_last_minute_and_failures_of_the_last_hour(
    clock: VirtualClock,
) -> None:
    figures = ConsumeStatistics(clock)
    now = clock.monotonic
    for _ in range(20):
        figures.handled("T", 3, 0.5, is_success=True)
        figures.handled("T", 1, 2.0, is_success=False)
        await clock.advance(1)
    topic = figures.of("T")
    assert topic.handled.per_second(now()) == 3
    assert topic.handled.mean_cost(now()) == 0.5
    assert topic.failed.per_second(now()) == 1
    await clock.advance(120)
    assert (topic.handled.count(now()), topic.failed.count(now())) == (0, 0)
    assert topic.failed_in_hour.count(now()) == 20
    await clock.advance(3600)
    assert topic.failed_in_hour.count(now()) == 0
    assert figures.of("Other").handled.count(now()) == 0
