"""How far and how fast each group pulls: what is under way between broker and consumers."""

from __future__ import annotations

from collections.abc import Container

from pocketmq.broker.counters.traffic import MESSAGES, MINUTE, Traffic
from pocketmq.runtime.clock import Clock


class QueuePulls:
    """What a group pulled of a queue.

    Attributes:
        offset: up to where.
        requests: pulls that found something.
        messages, size: of them.
        elapsed_s: how long reading them took.
    """

    __slots__ = ("elapsed_s", "messages", "offset", "requests", "size")

    def __init__(self) -> None:
        self.offset = self.requests = self.messages = self.size = 0
        self.elapsed_s = 0.0

    def amounts(self) -> tuple[int, int, int, int]:
        """Requests, messages, bytes and milliseconds."""
        return self.requests, self.messages, self.size, int(self.elapsed_s * 1000)


class Pulled(Traffic):
    """What a group pulled of a topic, and of each of its queues."""

    __slots__ = ("queues",)

    def __init__(self, now_s: float) -> None:
        super().__init__(now_s)
        self.queues: dict[int, QueuePulls] = {}


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
        self,
        group: str,
        topic: str,
        queue_id: int,
        next_offset: int,
        count: int,
        size: int,
        elapsed_s: float = 0.0,
    ) -> None:
        """Counts the messages and bytes of a pull; the group's next one begins at `next_offset`."""
        pulled = self.pulled.get((group, topic))
        if pulled is None:
            pulled = self.pulled[group, topic] = Pulled(self._clock.monotonic())
        queue = pulled.queues.get(queue_id)
        if queue is None:
            queue = pulled.queues[queue_id] = QueuePulls()
        queue.offset = next_offset
        if elapsed_s > self.read_max_s:
            self.read_max_s = elapsed_s
        if count:
            queue.requests += 1
            queue.messages += count
            queue.size += size
            queue.elapsed_s += elapsed_s
            total = self.total
            pulled.requests += 1
            pulled.messages += count
            pulled.size += size
            total.requests += 1
            total.messages += count
            total.size += size

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """Returns up to where a group has pulled a queue since the start; 0 for not at all."""
        pulled = self.pulled.get((group, topic))
        queue = None if pulled is None else pulled.queues.get(queue_id)
        return 0 if queue is None else queue.offset

    def per_second(self, group: str, topic: str) -> float:
        """How many messages a second a group has pulled of a topic in the last minute."""
        pulled = self.pulled.get((group, topic))
        if pulled is None:
            return 0.0
        return pulled.growth(self._clock.monotonic(), MINUTE).per_second(MESSAGES)

    def forget_queue(self, group: str, topic: str, queue_id: int) -> None:
        """Forgets how far a group has pulled a queue, after it was reset."""
        pulled = self.pulled.get((group, topic))
        if pulled is not None and queue_id in pulled.queues:
            pulled.queues[queue_id].offset = 0

    def messages_by_group(self) -> dict[str, int]:
        """Counts the messages that each group has pulled since the start."""
        out: dict[str, int] = {}
        for (group, _), pulled in self.pulled.items():
            out[group] = out.get(group, 0) + pulled.messages
        return out

    def remove_groups(self, groups: Container[str]) -> None:
        """Forgets groups."""
        self.pulled = {key: p for key, p in self.pulled.items() if key[0] not in groups}

    def remove_topic(self, topic: str) -> None:
        """Forgets a topic."""
        self.pulled = {key: p for key, p in self.pulled.items() if key[1] != topic}
