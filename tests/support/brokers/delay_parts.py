"""What tests of delayed delivery share: a clock that can be set, and looks into the logs."""

from __future__ import annotations

from typing import Any

from support.brokers.broker_parts import TOPIC

from pocketmq.broker import Broker
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.testing.clock import VirtualClock

QUIET: dict[str, Any] = {
    "connection_idle_timeout": 86_400_000,
    "flush_interval_commit_log": 600_000,
    "flush_delay_offset_interval": 600_000,
    "flush_consumer_offset_interval": 600_000,
    "clean_resource_interval": 3_600_000,
}
"""Settings with which little happens by itself, so that hours pass quickly."""


class SetClock(VirtualClock):
    """A clock whose wall time can be set; what only counts seconds goes on as before."""

    def __init__(self) -> None:
        super().__init__()
        self.set_by_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.set_by_ms


def in_log(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[ReceivedMessage]:
    """Everything that a queue holds, read past the wire."""
    queue_log = broker.store.find_log(topic, queue_id)
    if queue_log is None:
        return []
    data, offset = b"", queue_log.min_offset
    while offset < queue_log.max_offset:
        part = queue_log.read(offset, 1000, 1 << 22)
        data, offset = data + part.data, part.next_offset
    return list(decode_records(data))


def bodies(broker: Broker, topic: str = TOPIC, queue_id: int = 0) -> list[bytes]:
    return [m.body for m in in_log(broker, topic, queue_id)]


def set_back(clock: SetClock, seconds: float) -> None:
    clock.set_by_ms -= round(seconds * 1000)
