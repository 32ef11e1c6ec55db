"""How far and how fast each group pulls: what is under way between broker and consumers."""

from __future__ import annotations

from pocketmq.broker.statistics.traffic import MESSAGES, MINUTE, Traffic
from pocketmq.transport.clock import Clock


class Pulled(Traffic):
    """What a group pulled of a topic, and up to which offset of each queue."""

    __slots__ = ("offsets",)

    def __init__(self, now_s: float) -> None:
        super().__init__(now_s)
        self.offsets: dict[int, int] = {}


class PullProgress:
    """Up to which offset each group has pulled each queue, and how many messages of late.

    In memory only: after a restart consumers pull again what they have not committed
    (`ConsumerOffsetManager#commitPullOffset`, `BrokerStatsManager#tpsGroupGetNums`).

    Args:
        clock: for the rates.

    Attributes:
        pulled: by group and topic.
        total: of all groups; its requests are pulls that found something.
        missed: pulls that were answered without messages.
        read_max_s: the longest time that one took to read.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.pulled: dict[tuple[str, str], Pulled] = {}
        self.total = Traffic(clock.monotonic())
        self.missed, self.read_max_s = 0, 0.0

    def note(
        self, group: str, topic: str, queue_id: int, next_offset: int, count: int, size: int
    ) -> None:
        """A pull gave so many messages and bytes; the next one is due at `next_offset`."""
        pulled = self.pulled.get((group, topic))
        if pulled is None:
            pulled = self.pulled[group, topic] = Pulled(self._clock.monotonic())
        pulled.offsets[queue_id] = next_offset
        if count:
            total = self.total
            pulled.requests += 1
            pulled.messages += count
            pulled.size += size
            total.requests += 1
            total.messages += count
            total.size += size

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where a group has pulled a queue; 0 if it has not since the broker's start."""
        pulled = self.pulled.get((group, topic))
        return 0 if pulled is None else pulled.offsets.get(queue_id, 0)

    def per_second(self, group: str, topic: str) -> float:
        """How many messages a second a group has pulled of a topic in the last minute."""
        pulled = self.pulled.get((group, topic))
        if pulled is None:
            return 0.0
        return pulled.growth(self._clock.monotonic(), MINUTE).per_second(MESSAGES)

    def forget_queue(self, group: str, topic: str, queue_id: int) -> None:
        """A group was put elsewhere in a queue."""
        pulled = self.pulled.get((group, topic))
        if pulled is not None:
            pulled.offsets.pop(queue_id, None)

    def remove_group(self, group: str) -> None:
        """Forgets a group."""
        self.pulled = {key: p for key, p in self.pulled.items() if key[0] != group}

    def remove_topic(self, topic: str) -> None:
        """Forgets a topic."""
        self.pulled = {key: p for key, p in self.pulled.items() if key[1] != topic}
