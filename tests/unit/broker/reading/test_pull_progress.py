from __future__ import annotations

from pocketmq.broker.counters.traffic import HOUR, MINUTE
from pocketmq.broker.reading.pull_progress import PullProgress
from pocketmq.testing.clock import VirtualClock


async def test_offsets_and_rates_are_kept_by_group_topic_and_queue(clock: VirtualClock) -> None:
    progress = PullProgress(clock)
    assert (progress.offset("g", "T", 0), progress.per_second("g", "T")) == (0, 0.0)
    for second in range(1, 21):
        progress.note("g", "T", 0, second * 10, 10, 1000)
        await clock.advance(1)
    progress.note("g", "U", 3, 5, 5, 500)
    assert progress.offset("g", "T", 0) == 200
    assert progress.offset("g", "T", 1) == 0
    assert progress.offset("g", "U", 3) == 5
    assert progress.per_second("g", "T") == 10
    total = progress.total
    assert (total.requests, total.messages, total.size) == (21, 205, 20_500)
    pulled = progress.pulled["g", "T"]
    assert (pulled.requests, pulled.messages, pulled.size) == (20, 200, 20_000)
    assert pulled.queues[0].amounts() == (20, 200, 20_000, 0)
    for window in (MINUTE, HOUR):
        pulled.sample(clock.monotonic(), window)
    await clock.advance(100)
    assert progress.per_second("g", "T") == 0
    assert pulled.growth(clock.monotonic(), HOUR).amounts == (20, 200, 20_000)
    assert progress.offset("g", "T", 0) == 200


async def test_queues_groups_and_topics_are_forgotten(clock: VirtualClock) -> None:
    progress = PullProgress(clock)
    for group in ("g", "h"):
        for topic in ("T", "U"):
            progress.note(group, topic, 0, 7, 7, 700)
    progress.forget_queue("g", "T", 0)
    progress.forget_queue("g", "unknown", 0)
    assert (progress.offset("g", "T", 0), progress.offset("g", "U", 0)) == (0, 7)
    assert progress.pulled["g", "T"].queues[0].messages == 7, "what was pulled was pulled"
    progress.remove_groups({"g"})
    assert (progress.offset("g", "U", 0), progress.offset("h", "U", 0)) == (0, 7)
    progress.remove_topic("U")
    assert (progress.offset("h", "U", 0), progress.offset("h", "T", 0)) == (0, 7)


async def test_a_pull_that_found_nothing_is_no_traffic(clock: VirtualClock) -> None:
    progress = PullProgress(clock)
    progress.note("g", "T", 0, 9, 0, 0)
    assert progress.offset("g", "T", 0) == 9
    assert (progress.total.requests, progress.pulled["g", "T"].requests) == (0, 0)
