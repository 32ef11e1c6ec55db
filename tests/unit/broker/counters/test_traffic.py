from __future__ import annotations

from pocketmq.broker.counters.traffic import (
    DAY,
    HOUR,
    MESSAGES,
    MINUTE,
    REQUESTS,
    SIZE,
    Traffic,
    TrafficTable,
)
from pocketmq.testing.clock import VirtualClock


def test_each_window_has_its_own_samples() -> None:
    traffic = Traffic(0.0)
    traffic.requests, traffic.messages, traffic.size = 1, 10, 1000
    for window in (MINUTE, HOUR, DAY):
        traffic.sample(10.0, window)
    traffic.requests, traffic.messages, traffic.size = 2, 30, 2500
    amounts = traffic.growth(100.0, MINUTE).amounts
    assert (amounts[REQUESTS], amounts[MESSAGES], amounts[SIZE]) == (1, 20, 1500)
    assert traffic.growth(100.0, HOUR).amounts == (2, 30, 2500)
    assert traffic.growth(4000.0, HOUR).amounts == (1, 20, 1500)
    assert traffic.growth(4000.0, DAY).amounts == (2, 30, 2500)


async def test_a_table_begins_to_count_what_is_new(clock: VirtualClock) -> None:
    table: TrafficTable[str] = TrafficTable(clock)
    assert table.per_second("T") == 0
    assert not table, "asking alone makes no entry"
    table["T"].messages += 5
    assert table.per_second("T") == 0.5, "in a step of ten seconds"
    await clock.advance(40)
    assert table.per_second("T") == 0.125
