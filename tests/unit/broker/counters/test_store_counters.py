from __future__ import annotations

from pocketmq.broker.counters.store_counters import StoreCounters
from pocketmq.broker.counters.traffic import Traffic
from pocketmq.testing.clock import VirtualClock


def amounts(traffic: Traffic) -> tuple[int, int, int]:
    return traffic.requests, traffic.messages, traffic.size


def test_puts_count_for_their_topic_and_in_all(clock: VirtualClock) -> None:
    puts = StoreCounters(clock)
    puts.count("A", 1, 16, 2000)
    puts.count("B", 2, 2, 300)
    puts.count("A", 1, 1, 100)
    assert amounts(puts.topics["A"]) == (2, 17, 2100)
    assert amounts(puts.topics["B"]) == (2, 2, 300)
    assert amounts(puts.total) == (4, 19, 2400)
