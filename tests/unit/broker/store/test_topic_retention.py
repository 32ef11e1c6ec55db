"""What topics say themselves about what is kept of them: for how long, and how many bytes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.stores import RECORD_OVERHEAD, bodies, measure_disk, open_store, put

from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.broker.store.kept import Kept
from pocketmq.broker.store.retention import Retention
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

HOUR_S = 3600
HOUR_MS = 3_600_000
RECORD = 900 + RECORD_OVERHEAD
"""Bytes of a record that fills a segment."""


class Rules:
    """A retention with what topics say, which a test may replace."""

    def __init__(self, store: MessageStore, reserved_ms: int) -> None:
        self.store = store
        self.kept: Mapping[str, Kept] = {}
        self.reserved_ms = Live(reserved_ms)
        self.retention = Retention(store, self.reserved_ms, kept=lambda: self.kept)

    async def round(self, *, until_nothing: bool = True) -> int:
        """Rounds with the checkpoints that follow them in a broker; returns what they removed."""
        removed = 0
        for _ in range(8 if until_nothing else 1):
            removed += await self.retention.run()
            await self.store.checkpoint()
        return removed


@pytest_asyncio.fixture
async def store(data: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    store = open_store(data, clock)
    yield store
    await store.close()


@pytest.fixture
def rules(store: MessageStore) -> Rules:
    return Rules(store, 10 * HOUR_MS)


def fill(store: MessageStore, *topics: str, segments: int = 3, queues: int = 1) -> None:
    for topic in topics:
        for queue_id in range(queues):
            put(store, *[bytes(900)] * segments, topic=topic, queue_id=queue_id)


def left(store: MessageStore, topic: str, queues: int = 1) -> list[int]:
    return [len(bodies(store, topic, queue_id)) for queue_id in range(queues)]


async def test_a_topic_may_be_kept_for_less_or_more_time_than_the_others(
    store: MessageStore, rules: Rules, clock: VirtualClock
) -> None:
    fill(store, "Short", "Usual", "Long")
    await store.checkpoint()
    rules.kept = {"Short": Kept(time_ms=HOUR_MS), "Long": Kept(time_ms=20 * HOUR_MS)}
    for hours, expected in ((1, [3, 3, 3]), (2, [0, 3, 3]), (11, [0, 0, 3]), (21, [0, 0, 0])):
        await clock.advance(hours * HOUR_S - clock.monotonic())
        await rules.round()
        assert [*left(store, "Short"), *left(store, "Usual"), *left(store, "Long")] == expected
    queue_log = store.find_log("Short", 0)
    assert queue_log is not None
    assert (queue_log.min_offset, queue_log.max_offset) == (3, 3), "it goes on at its offset"


async def test_times_may_change_while_the_broker_runs(
    store: MessageStore, rules: Rules, clock: VirtualClock
) -> None:
    fill(store, "A", "B", queues=4)
    await store.checkpoint()
    await rules.round()
    await clock.advance(5 * HOUR_S)
    assert rules.retention.idle_s() == pytest.approx(5 * HOUR_S, abs=1)
    rules.kept = {"A": Kept(time_ms=6 * HOUR_MS)}
    assert rules.retention.idle_s() == 0, "a round is to look at it"
    await rules.round()
    assert rules.retention.idle_s() == pytest.approx(HOUR_S, abs=1)
    rules.kept = {"A": Kept(time_ms=20 * HOUR_MS), "B": Kept(time_ms=HOUR_MS)}
    await rules.round()
    assert (left(store, "A", 4), left(store, "B", 4)) == ([3] * 4, [0] * 4)
    await clock.advance(6 * HOUR_S)
    await rules.round()
    assert left(store, "A", 4) == [3] * 4
    rules.kept = {}  # as long as the broker says again: that time is over
    await rules.round()
    assert left(store, "A", 4) == [0] * 4


async def test_the_time_of_the_broker_changes_only_what_has_none_of_its_own(
    store: MessageStore, rules: Rules, clock: VirtualClock
) -> None:
    rules.kept = {"A": Kept(time_ms=10 * HOUR_MS)}
    fill(store, "A", "B")
    await store.checkpoint()
    await rules.round()
    await clock.advance(2 * HOUR_S)
    rules.reserved_ms.replace(HOUR_MS)
    await rules.round()
    assert (left(store, "A"), left(store, "B")) == ([3], [0])


async def test_logs_at_rest_need_not_be_opened_for_a_time(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    fill(store, "A", segments=1, queues=5)
    await store.close()
    store = open_store(data, clock)
    rules = Rules(store, 10 * HOUR_MS)
    rules.kept = {"A": Kept(time_ms=HOUR_MS, size=1)}
    await rules.round()
    assert store.logs.open_logs() == []
    await clock.advance(2 * HOUR_S)
    await rules.round()
    assert left(store, "A", 5) == [0] * 5
    await store.close()


async def test_the_oldest_segments_of_a_topic_go_while_it_is_too_large(
    store: MessageStore, rules: Rules, clock: VirtualClock
) -> None:
    for _ in range(3):
        fill(store, "Orders", "Other", segments=1, queues=2)
        await clock.advance(60)
    await store.checkpoint()
    rules.kept = {"Orders": Kept(size=4 * RECORD)}
    assert await rules.round() == 2
    assert left(store, "Orders", 2) == [2, 2], "the oldest of all its queues"
    assert left(store, "Other", 2) == [3, 3]
    assert await rules.round() == 0
    rules.kept = {"Orders": Kept(size=4 * RECORD - 1)}
    assert await rules.round() == 1
    assert left(store, "Orders", 2) == [1, 2]
    queue_log = store.find_log("Orders", 0)
    assert queue_log is not None
    assert (queue_log.min_offset, queue_log.max_offset) == (2, 3)


async def test_what_is_being_written_stays_however_small_the_limit_is(
    store: MessageStore, rules: Rules
) -> None:
    fill(store, "Orders", queues=2)
    await store.checkpoint()
    rules.kept = {"Orders": Kept(size=1)}
    await rules.round()
    assert left(store, "Orders", 2) == [1, 1]
    assert rules.retention.idle_s() > 0
    fill(store, "Orders", segments=1)
    await store.checkpoint()
    assert rules.retention.idle_s() == 0
    await rules.round()
    assert left(store, "Orders", 2) == [1, 1]


async def test_a_limit_counts_after_a_start_too(data: Path, clock: VirtualClock) -> None:
    store = open_store(data, clock)
    fill(store, "Orders", queues=2)
    await store.close()
    store = open_store(data, clock)
    rules = Rules(store, 10 * HOUR_MS)
    rules.kept = {"Orders": Kept(size=3 * RECORD)}
    await rules.round()
    assert sum(left(store, "Orders", 2)) == 3
    await store.close()


async def test_what_must_stay_is_not_removed_for_its_size(
    store: MessageStore, clock: VirtualClock
) -> None:
    fill(store, "A", "B")
    await store.checkpoint()
    retention = Retention(
        store,
        Live(10 * HOUR_MS),
        lambda queue_log: queue_log.topic == "A",
        lambda: {"A": Kept(size=1), "B": Kept(size=1)},
    )
    await retention.run()
    assert (left(store, "A"), left(store, "B")) == ([3], [1])


async def test_a_full_disk_takes_what_a_topic_would_keep_longer(
    store: MessageStore, rules: Rules
) -> None:
    fill(store, "Long")
    await store.checkpoint()
    rules.kept = {"Long": Kept(time_ms=1000 * HOUR_MS)}
    measure_disk(store, 100.0, 1.0, 1000, lambda _: DiskUse(100, 99, 1))
    await rules.round()
    assert left(store, "Long") == [1]
