"""When the disk will have no room: from its growth, and from what retention will remove."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.stores import measure_disk, open_store, put

from pocketmq.broker.statistics.disk_forecast import DiskForecast, Stop, seconds_until
from pocketmq.broker.store.disk.disk import DiskUse
from pocketmq.broker.store.kept import Kept
from pocketmq.broker.store.store import MessageStore
from pocketmq.runtime.live import Live
from pocketmq.testing.clock import VirtualClock

HOUR_S, HOUR_MS = 3600, 3_600_000
TOTAL = 1_000_000
CLEAN, FULL, FREE_MIN = 85.0, 90.0, 10 * TOTAL
BODY = bytes(900)


class Machine:
    """A disk that fills with what is stored, beside what others write, and looks every minute."""

    def __init__(self, store: MessageStore, clock: VirtualClock) -> None:
        self.store, self.clock = store, clock
        self.others, self.removed = 0, 0
        self.kept: dict[str, Kept] = {}
        self.reserved_ms = Live(72 * HOUR_MS)
        self.start()

    def start(self) -> None:
        """Begins to look at the disk as it is now."""
        measure_disk(self.store, FULL, CLEAN, FREE_MIN, self.measure)
        self.forecast = DiskForecast(
            self.store.disk, self.store.counters, self.store.logs, self.reserved_ms,
            lambda topic: self.kept.get(topic, Kept()), self.clock,
        )  # fmt: skip

    def measure(self, _: Path) -> DiskUse:
        used = self.others + sum(queue_log.size for queue_log in self.store.logs.open_logs())
        return DiskUse(TOTAL, used, TOTAL - used)

    async def run(self, minutes: int, **records: int) -> None:
        """Lets minutes pass, in each of which so many records of topics are stored."""
        for _ in range(minutes):
            for topic, count in records.items():
                put(self.store, *[BODY] * count, topic=topic)
            await self.clock.advance(60)
            await self.forecast.look()
            for topic in records:
                traffic = self.store.counters.topics[topic]
                for window in self.forecast._histories:
                    traffic.sample(self.clock.monotonic(), window)
        await self.store.checkpoint()


@pytest_asyncio.fixture
async def machine(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Machine]:
    store = open_store(tmp_path / "data", clock)
    yield Machine(store, clock)
    await store.close()


async def test_a_disk_that_fills_steadily_is_foretold(machine: Machine) -> None:
    await machine.run(9, Orders=1)
    assert machine.forecast.figures() == {}, "nine minutes foretell nothing"
    await machine.run(60, Orders=1)
    outlook = machine.forecast.outlook
    assert outlook is not None
    left = TOTAL - machine.store.disk.use.used
    per_second = 1000 / 60
    assert outlook.topic == "Orders"
    assert outlook.clean_s == pytest.approx((left - 0.15 * TOTAL) / per_second, rel=0.05)
    assert outlook.full_s == pytest.approx((left - 0.10 * TOTAL) / per_second, rel=0.05)
    figures = machine.forecast.figures()
    now_ms = machine.clock.now_ms()
    assert figures["diskCleanTimestamp"] == now_ms + round(outlook.clean_s * 1000)
    assert figures["diskFullTimestamp"] == now_ms + round(outlook.full_s * 1000)
    assert figures["diskGrowthTimeMs"] == pytest.approx(HOUR_MS, rel=0.2)


async def test_a_disk_that_rests_is_not(machine: Machine) -> None:
    machine.others = TOTAL // 2
    machine.start()
    await machine.run(90)
    assert machine.forecast.outlook is None
    assert machine.forecast.figures() == {}


async def test_a_rate_is_not_carried_on_for_long(machine: Machine) -> None:
    put(machine.store, BODY, topic="Orders")
    await machine.run(30)
    machine.others += 5_000  # 10 kB an hour would take days: half an hour says little of them
    await machine.run(1)
    assert machine.forecast.outlook is None


async def test_what_others_write_counts_too(machine: Machine) -> None:
    for _ in range(20):
        machine.others += 10_000
        await machine.run(1)
    outlook = machine.forecast.outlook
    assert outlook is not None
    assert outlook.topic == ""
    assert outlook.clean_s == pytest.approx((850_000 - 200_000) / (10_000 / 60), rel=0.1)


@pytest.mark.parametrize(
    ("kept", "stops"),
    [
        (Kept(), False),
        (Kept(time_ms=12 * HOUR_MS), True),
        (Kept(time_ms=20 * HOUR_MS), False),
        (Kept(size=300_000), True),
        (Kept(size=900_000), False),
    ],
)
async def test_growth_ends_when_retention_begins(machine: Machine, kept: Kept, stops: bool) -> None:
    machine.kept = {"Orders": kept}  # after 14 hours the disk would be 85 % full
    await machine.run(60, Orders=1)
    assert (machine.forecast.outlook is None) is stops


async def test_a_topic_that_retention_has_begun_with_grows_as_it_does(machine: Machine) -> None:
    machine.kept = {"Steady": Kept(size=1)}
    put(machine.store, BODY, BODY, topic="Steady")
    await machine.store.checkpoint()
    queue_log = machine.store.queue_log("Steady", 0)
    queue_log.drop_oldest_segment()
    await machine.run(60, Steady=1)
    assert machine.forecast.outlook is not None, "what is measured has its removals in it"


def test_the_growth_that_ends_is_taken_off() -> None:
    assert seconds_until(100, 10, []) == 10
    assert seconds_until(100, 0, []) == math.inf
    assert seconds_until(100, 10, [Stop(20, 10)]) == 10, "before it ends"
    assert seconds_until(100, 10, [Stop(5, 10)]) == math.inf
    assert seconds_until(100, 10, [Stop(5, 5)]) == 15
    assert seconds_until(100, 10, [Stop(6, 4), Stop(2, 4)]) == 2 + 4 + 28
    assert seconds_until(100, 10, [Stop(math.inf, 10)]) == 10, "it has ended already"
    assert seconds_until(0, 10, [Stop(0, 10)]) == 0
