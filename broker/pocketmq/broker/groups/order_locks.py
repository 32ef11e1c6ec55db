"""Locks by which one member of a group has a queue to itself (`broker/client/rebalance`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import islice

from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.broker")

LOCK_LIFE_S = 60.0
"""How long a lock holds that is not renewed (`REBALANCE_LOCK_MAX_LIVE_TIME`)."""

LOCKS_MAX = 100_000
"""Locks of all groups together; who asks for more gets none until some expire."""

EXPIRED_PER_TURN_MAX = 1000
"""Locks that one turn of the loop drops, so that sends and pulls get theirs."""

SWEEP_PERIOD_S = 1.0
"""While there are too many locks, so often a request that finds no room looks for expired ones."""


class _Lock:
    __slots__ = ("client_id", "renewed_s")

    def __init__(self, client_id: str, renewed_s: float) -> None:
        self.client_id, self.renewed_s = client_id, renewed_s


class OrderLocks:
    """The locks of all groups.

    A lost connection releases nothing: its client may still be at work. Owners are kept in the
    metadata, so that after a restart of the broker nobody is faster than the owner; the life of
    those locks begins anew with the broker's (RocketMQ's are free then).

    Args:
        metadata: where owners are kept.
        clock: by which locks expire.
    """

    def __init__(self, metadata: Metadata, clock: Clock) -> None:
        self._metadata, self._clock = metadata, clock
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0
        self._swept_s = -SWEEP_PERIOD_S
        now_s = clock.monotonic()
        for group, topic, broker_name, queue_id, client_id in metadata.order_locks():
            self._put(group, MessageQueue(topic, broker_name, queue_id), _Lock(client_id, now_s))

    def __len__(self) -> int:
        return self._count

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Gives a client the locks that are free, expired or its own already, and renews them.

        Returns:
            The queues that are the client's now.
        """
        now_s = self._clock.monotonic()
        locks = self._groups.get(group, {})
        held, taken = [], []
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                if self._count >= LOCKS_MAX and not self._expire_some():
                    log.warning("group %s: %s is not locked: there are too many", group, queue)
                    continue
                lock = _Lock(client_id, now_s)
                self._put(group, queue, lock)
                locks = self._groups[group]
                taken.append(queue)
            elif lock.client_id != client_id:
                if not _is_expired(lock, now_s):
                    continue
                log.info(
                    "group %s: the lock of %s for %s expired, %s has it now",
                    group,
                    lock.client_id,
                    queue,
                    client_id,
                )
                lock.client_id = client_id
                taken.append(queue)
            lock.renewed_s = now_s
            held.append(queue)
        self._save([(group, *queue, client_id) for queue in taken])
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Releases the client's own locks among those named."""
        locks = self._groups.get(group, {})
        released = [q for q in queues if q in locks and locks[q].client_id == client_id]
        self._remove([(group, queue) for queue in released])

    def holds_any(self, group: str) -> bool:
        """Whether a group consumes in order: any of its locks has not expired."""
        locks = self._groups.get(group)
        if not locks:
            return False
        now_s = self._clock.monotonic()
        return any(not _is_expired(lock, now_s) for lock in locks.values())

    async def expire(self) -> None:
        """Drops expired locks, in slices between which other tasks run."""
        while self._drop_expired() == EXPIRED_PER_TURN_MAX:
            await self._clock.sleep(0)

    def _expire_some(self) -> bool:
        now_s = self._clock.monotonic()
        if now_s - self._swept_s < SWEEP_PERIOD_S:
            return False
        if not self._drop_expired():
            self._swept_s = now_s
        return self._count < LOCKS_MAX

    def _drop_expired(self) -> int:
        now_s = self._clock.monotonic()
        expired = (
            (group, queue)
            for group, locks in self._groups.items()
            for queue, lock in locks.items()
            if _is_expired(lock, now_s)
        )
        dropped = list(islice(expired, EXPIRED_PER_TURN_MAX))
        self._remove(dropped)
        return len(dropped)

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        self._groups.setdefault(group, {})[queue] = lock
        self._count += 1

    def _remove(self, released: list[tuple[str, MessageQueue]]) -> None:
        for group, queue in released:
            locks = self._groups[group]
            del locks[queue]
            if not locks:
                del self._groups[group]
        self._count -= len(released)
        try:
            self._metadata.remove_order_locks([(group, *queue) for group, queue in released])
        except WriteFailedError as e:
            log.warning("released locks come back after a restart: %s", e)

    def _save(self, rows: list[tuple[str, str, str, int, str]]) -> None:
        try:
            self._metadata.save_order_locks(rows)
        except WriteFailedError as e:
            # A full disk must not end consumption; without a restart the lock is as good.
            log.warning("locks would be forgotten by a restart of the broker: %s", e)


def _is_expired(lock: _Lock, now_s: float) -> bool:
    return now_s - lock.renewed_s > LOCK_LIFE_S
