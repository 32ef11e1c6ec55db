"""Pulls that found nothing wait here for a message (`broker/longpolling/PullRequestHoldService`).

A held pull costs one entry in a table and one timer; an idle queue costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.transport.clock import Clock, Timer
from pocketmq.transport.connection import Connection


class HeldPull(msgspec.Struct, eq=False):
    """One pull that waits.

    Attributes:
        connection: of the client.
        offset: it wants a message at or behind this queue offset.
        wake: tries again; True when the pull was answered.
        expire: answers that nothing came.
    """

    connection: Connection
    offset: int
    wake: Callable[[], bool]
    expire: Callable[[], object]
    timer: Timer | None = None


class LongPolling:
    """Held pulls by topic and queue.

    Args:
        clock: for their time limits.
        held_max: how many may wait together; further ones are answered at once.
    """

    def __init__(self, clock: Clock, held_max: int) -> None:
        self._clock, self._held_max = clock, held_max
        self._held: dict[tuple[str, int], dict[HeldPull, None]] = {}
        self._keys: dict[Connection, dict[HeldPull, tuple[str, int]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def hold(self, topic: str, queue_id: int, pull: HeldPull, timeout_ms: int) -> bool:
        """Keeps a pull until a message arrives or its time is over; False if there is no room."""
        if self._count >= self._held_max:
            return False
        key = (topic, queue_id)
        self._held.setdefault(key, {})[pull] = None
        self._keys.setdefault(pull.connection, {})[pull] = key
        self._count += 1
        pull.timer = self._clock.call_later(timeout_ms / 1000, self._expire, key, pull)
        return True

    def arrived(self, queue_log: QueueLog) -> None:
        """Wakes the pulls of a queue that has new messages."""
        key = (queue_log.topic, queue_log.queue_id)
        held = self._held.get(key)
        if held is None:
            return
        end = queue_log.end_offset
        for pull in [p for p in held if p.offset < end]:
            if pull in held and pull.wake():
                self._remove(key, pull)

    def release_all(self) -> None:
        """Answers every held pull: the broker stops."""
        for key, held in list(self._held.items()):
            for pull in list(held):
                self._expire(key, pull)

    def release_topic(self, topic: str) -> None:
        """Answers the held pulls of a topic that goes away."""
        for key in [key for key in self._held if key[0] == topic]:
            for pull in list(self._held[key]):
                self._expire(key, pull)

    def forget(self, connection: Connection) -> None:
        """Drops the held pulls of a client that is gone."""
        for pull, key in list(self._keys.get(connection, {}).items()):
            self._remove(key, pull)

    def _expire(self, key: tuple[str, int], pull: HeldPull) -> None:
        if self._remove(key, pull):
            pull.expire()

    def _remove(self, key: tuple[str, int], pull: HeldPull) -> bool:
        held = self._held.get(key)
        if held is None or pull not in held:
            return False
        del held[pull]
        self._count -= 1
        if not held:
            del self._held[key]
        of_connection = self._keys[pull.connection]
        del of_connection[pull]
        if not of_connection:
            del self._keys[pull.connection]
        if pull.timer is not None:
            pull.timer.cancel()
        return True
