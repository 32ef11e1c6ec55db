"""The choice of a broker when brokers are slow or fail (`client/latency/MQFaultStrategy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from pocketmq.client.queue_ring import QueueRing
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.message import MessageQueue

ISOLATION_LATENCY_MS = 30_000
"""What a failed send counts as: it isolates the broker for the table's longest time."""


class FaultTable(msgspec.Struct, frozen=True):
    """How long a broker is avoided after a send of a certain latency.

    Args:
        latency_ms: levels, ascending: a send that took at least that long …
        unavailable_s: … excludes the broker for that many seconds.
    """

    latency_ms: tuple[int, ...]
    unavailable_s: tuple[int, ...]

    def __post_init__(self) -> None:
        levels = self.latency_ms
        if len(levels) != len(self.unavailable_s) or list(levels) != sorted(set(levels)):
            raise ConfigError(
                f"a fault table needs ascending latencies and as many times, not {levels} and "
                f"{self.unavailable_s}"
            )

    def unavailable_for(self, latency_ms: float) -> int:
        """Returns how many seconds a broker with this latency is avoided, perhaps 0."""
        for level_ms, seconds in zip(
            reversed(self.latency_ms), reversed(self.unavailable_s), strict=True
        ):
            if latency_ms >= level_ms:
                return seconds
        return 0


ROCKETMQ_4_TABLE = FaultTable(
    (50, 100, 550, 1_000, 2_000, 3_000, 15_000), (0, 0, 30, 60, 120, 180, 600)
)
ROCKETMQ_5_TABLE = FaultTable((50, 100, 550, 1_800, 3_000, 5_000, 15_000), (0, 0, 2, 5, 6, 10, 30))


class BrokerFault(NamedTuple):
    """A broker's last latency, and the time from which it may be used again."""

    latency_ms: float
    available_at: float


class LatencyFaultTolerance:
    """Remembers slow and failing brokers.

    Args:
        monotonic: a clock, in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._faults: dict[str, BrokerFault] = {}

    def update(self, broker_name: str, latency_ms: float, unavailable_s: float) -> None:
        """Stores a broker's latency, and avoids the broker for some seconds from now on."""
        self._faults[broker_name] = BrokerFault(latency_ms, self._monotonic() + unavailable_s)

    def is_available(self, broker_name: str) -> bool:
        """Whether a broker may be used; an unknown one may."""
        fault = self._faults.get(broker_name)
        return fault is None or self._monotonic() >= fault.available_at

    def forget(self, broker_name: str) -> None:
        """Drops what is known of a broker."""
        self._faults.pop(broker_name, None)

    def least_bad(self, broker_names: Iterable[str]) -> str | None:
        """Returns the best broker: an available one, else the fastest, else the first one back."""
        return min(broker_names, key=self._badness, default=None)

    def _badness(self, broker_name: str) -> tuple[bool, float, float]:
        fault = self._faults.get(broker_name)
        if fault is None:
            return (False, 0.0, 0.0)
        return (not self.is_available(broker_name), fault.latency_ms, fault.available_at)


class FaultStrategy:
    """Chooses the queue for each attempt to send.

    Without `enabled` queues take turns, and a further attempt avoids the broker that just failed.
    With it, brokers that were slow are left out for the time of the table as well; if all are out,
    the least bad one is taken.

    Args:
        tolerance: the memory of slow brokers.
        table: how long a broker stays out.
        enabled: RocketMQ's sendLatencyFaultEnable.
    """

    def __init__(
        self, tolerance: LatencyFaultTolerance, table: FaultTable, *, enabled: bool
    ) -> None:
        self.tolerance, self.table, self.enabled = tolerance, table, enabled

    def select(self, ring: QueueRing, failed_broker: str | None = None) -> MessageQueue:
        """Returns the queue for the next attempt.

        RocketMQ 4's published loop takes an available queue only if it *is* of the broker that
        just failed; that is a bug, and the opposite is done here.

        Args:
            ring: the topic's queues; not empty.
            failed_broker: the broker of this message's last attempt; None for the first one.
        """
        if not self.enabled:
            if failed_broker is None:
                return ring.next()
            return ring.next_where(lambda name: name != failed_broker) or ring.next()
        is_available = self.tolerance.is_available
        queue = ring.next_where(lambda name: name != failed_broker and is_available(name))
        if queue is not None:
            return queue
        others = [name for name in ring.broker_names if name != failed_broker]
        least_bad = self.tolerance.least_bad(others or ring.broker_names)
        return ring.next_where(lambda name: name == least_bad) or ring.next()

    def observe(self, broker_name: str, latency_ms: float, *, isolate: bool = False) -> None:
        """Stores the latency of an attempt.

        Args:
            broker_name: the broker of the attempt.
            latency_ms: how long it took.
            isolate: the attempt failed, which counts as a latency of 30 s.
        """
        if self.enabled:
            counted_ms = ISOLATION_LATENCY_MS if isolate else latency_ms
            self.tolerance.update(broker_name, counted_ms, self.table.unavailable_for(counted_ms))
