"""How far and how fast each group pulls: what is under way between broker and consumers."""

from __future__ import annotations

from pocketmq.transport.clock import Clock
from pocketmq.transport.rates import Window


class _Pulled:
    __slots__ = ("offsets", "window")

    def __init__(self, now_s: float) -> None:
        self.offsets: dict[int, int] = {}
        self.window = Window(now_s)


class PullProgress:
    """Up to which offset each group has pulled each queue, and how many messages of late.

    In memory only: after a restart consumers pull again what they have not committed
    (`ConsumerOffsetManager#commitPullOffset`, `BrokerStatsManager#tpsGroupGetNums`).

    Args:
        clock: for the rates.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pulled: dict[tuple[str, str], _Pulled] = {}

    def note(self, group: str, topic: str, queue_id: int, next_offset: int, count: int) -> None:
        """A pull gave so many messages; the next one is due at `next_offset`."""
        now_s = self._clock.monotonic()
        pulled = self._pulled.get((group, topic))
        if pulled is None:
            pulled = self._pulled[group, topic] = _Pulled(now_s)
        pulled.offsets[queue_id] = next_offset
        pulled.window.add(now_s, count)

    def offset(self, group: str, topic: str, queue_id: int) -> int:
        """Up to where a group has pulled a queue; 0 if it has not since the broker's start."""
        pulled = self._pulled.get((group, topic))
        return 0 if pulled is None else pulled.offsets.get(queue_id, 0)

    def per_second(self, group: str, topic: str) -> float:
        """How many messages a second a group has pulled of a topic in the last minute."""
        pulled = self._pulled.get((group, topic))
        return 0.0 if pulled is None else pulled.window.per_second(self._clock.monotonic())

    def forget_queue(self, group: str, topic: str, queue_id: int) -> None:
        """A group was put elsewhere in a queue."""
        pulled = self._pulled.get((group, topic))
        if pulled is not None:
            pulled.offsets.pop(queue_id, None)

    def remove_group(self, group: str) -> None:
        """Forgets a group."""
        self._pulled = {key: p for key, p in self._pulled.items() if key[0] != group}

    def remove_topic(self, topic: str) -> None:
        """Forgets a topic."""
        self._pulled = {key: p for key, p in self._pulled.items() if key[1] != topic}
