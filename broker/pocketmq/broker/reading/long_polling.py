"""Pulls that found nothing wait here for a message (`broker/longpolling/PullRequestHoldService`).

A held pull costs a few entries in tables; an idle queue costs nothing. Pulls whose time is over at
about the same moment share a timer: their answers then leave together.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.connection import Connection

KeyT = TypeVar("KeyT", bound=Hashable)

TICK_MS = 100
"""Held pulls end at full ticks: at most this much later than their clients asked for."""


class HeldPull(Protocol):
    """A pull that waits for a message.

    Attributes:
        connection: of the client.
        topic_name, queue_id: the queue it waits for.
        offset: queue offset from which on it wants a message.
    """

    @property
    def connection(self) -> Connection: ...  # noqa: D102

    @property
    def topic_name(self) -> str: ...  # noqa: D102

    @property
    def queue_id(self) -> int: ...  # noqa: D102

    @property
    def offset(self) -> int: ...  # noqa: D102

    end_tick: int
    """The tick at which its time is over; set while it is held."""

    def wake(self) -> bool:
        """Tries again; True when the pull was answered."""

    def expire(self) -> None:
        """Answers that nothing came."""


class _End:
    """The pulls whose time is over at the same tick, and their timer."""

    __slots__ = ("pulls", "timer")

    def __init__(self) -> None:
        self.pulls: set[HeldPull] = set()
        self.timer: Timer | None = None


class LongPolling:
    """Held pulls by topic and queue.

    Args:
        clock: for their time limits.
        held_max: how many may wait together; further ones are answered at once.
    """

    def __init__(self, clock: Clock, held_max: int) -> None:
        self._clock, self._held_max = clock, held_max
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._of_connection: dict[Connection, dict[HeldPull, None]] = {}
        self._ends: dict[int, _End] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, pull: HeldPull, timeout_ms: int) -> bool:
        """Keeps a pull until a message arrives or its time is over; False if there is no room."""
        if self._count >= self._held_max:
            return False
        self._count += 1
        self._held.setdefault((pull.topic_name, pull.queue_id), {})[pull] = None
        self._of_connection.setdefault(pull.connection, {})[pull] = None
        now_s = self._clock.monotonic()
        tick = pull.end_tick = -(-(round(now_s * 1000) + timeout_ms) // TICK_MS)
        end = self._ends.get(tick)
        if end is None:
            end = self._ends[tick] = _End()
            wait_s = tick * TICK_MS / 1000 - now_s
            end.timer = self._clock.call_later(wait_s, self._end, tick)
        end.pulls.add(pull)
        return True

    def arrived(self, queue_log: QueueLog) -> None:
        """Wakes the pulls of a queue that has new messages."""
        held = self._held.get((queue_log.topic, queue_log.queue_id))
        if held is None:
            return
        end = queue_log.end_offset
        for pull in [p for p in held if p.offset < end]:
            if pull in held and pull.wake():
                self._remove(pull)

    def look_again(self, topic: str, queue_id: int) -> None:
        """Wakes all pulls of a queue, as after an order to read on elsewhere."""
        for pull in list(self._held.get((topic, queue_id), ())):
            if pull.wake():
                self._remove(pull)

    def release_all(self) -> None:
        """Answers every held pull: the broker stops."""
        for held in list(self._held.values()):
            self._expire(held)

    def release_topic(self, topic: str) -> None:
        """Answers the held pulls of a topic that goes away."""
        for key in [key for key in self._held if key[0] == topic]:
            self._expire(self._held[key])

    def forget(self, connection: Connection) -> None:
        """Drops the held pulls of a client that is gone."""
        for pull in list(self._of_connection.get(connection, ())):
            self._remove(pull)

    def _end(self, tick: int) -> None:
        self._expire(self._ends[tick].pulls)

    def _expire(self, pulls: dict[HeldPull, None] | set[HeldPull]) -> None:
        for pull in list(pulls):
            if self._remove(pull):
                pull.expire()

    def _remove(self, pull: HeldPull) -> bool:
        """Takes a pull out of all tables; False if it is not held any more."""
        end = self._ends.get(pull.end_tick)
        if end is None or pull not in end.pulls:
            return False
        end.pulls.discard(pull)
        if not end.pulls:
            del self._ends[pull.end_tick]
            if end.timer is not None:
                end.timer.cancel()
        _discard(self._held, (pull.topic_name, pull.queue_id), pull)
        _discard(self._of_connection, pull.connection, pull)
        self._count -= 1
        return True


def _discard(table: dict[KeyT, dict[HeldPull, None]], key: KeyT, pull: HeldPull) -> None:
    pulls = table[key]
    del pulls[pull]
    if not pulls:
        del table[key]
