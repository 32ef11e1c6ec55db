"""Counters of what was stored, and read in bulk, since the start."""

from __future__ import annotations

from pocketmq.broker.counters.put_times import PutTimes
from pocketmq.broker.counters.traffic import Traffic, TrafficTable
from pocketmq.runtime.clock import Clock


class StoreCounters:
    """Counts stored messages by topic, the time that senders waited, failures, and bulk reads.

    Args:
        clock: of the histories.

    Attributes:
        topics: what was stored, by topic.
        total: all of it.
        times: how long senders waited.
        failed_count: requests that failed with an error of the store.
        bulk_read_count: bulk pulls, which the key index makes room for.
    """

    def __init__(self, clock: Clock) -> None:
        self.topics: TrafficTable[str] = TrafficTable(clock)
        self.total = Traffic(clock.monotonic())
        self.times = PutTimes()
        self.failed_count = 0
        self.bulk_read_count = 0

    def count(self, topic: str, requests: int, messages: int, size: int) -> None:
        """Adds what one commit has written to one queue of a topic."""
        total, of_topic = self.total, self.topics[topic]
        total.requests += requests
        total.messages += messages
        total.size += size
        of_topic.requests += requests
        of_topic.messages += messages
        of_topic.size += size
