"""Which member of a group has which queue to itself (`broker/client/rebalance`)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pocketmq.broker.store.errors import WriteFailedError
from pocketmq.broker.store.metadata import Metadata
from pocketmq.protocol.message import MessageQueue
from pocketmq.transport.clock import Clock

log = logging.getLogger("pocketmq.broker")

LOCK_LIFE_S = 60.0
"""How long a lock holds that is not renewed (`REBALANCE_LOCK_MAX_LIVE_TIME`)."""

LOCKS_MAX = 100_000
"""Locks of all groups together; who asks for more gets none until some expire."""


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
        now_s = clock.monotonic()
        for group, topic, broker_name, queue_id, client_id in metadata.order_locks():
            self._put(group, MessageQueue(topic, broker_name, queue_id), _Lock(client_id, now_s))

    def __len__(self) -> int:
        return self._count

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str
    ) -> list[MessageQueue]:
        """Takes locks that are free, expired or the client's already, and renews them.

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
        """Releases those of the locks that are the client's."""
        locks = self._groups.get(group, {})
        released = [q for q in queues if q in locks and locks[q].client_id == client_id]
        self._remove(group, released)

    def holds_any(self, group: str) -> bool:
        """Whether a group consumes in order: any of its locks has not expired."""
        locks = self._groups.get(group)
        if not locks:
            return False
        now_s = self._clock.monotonic()
        return any(not _is_expired(lock, now_s) for lock in locks.values())

    def expire(self) -> None:
        """Drops what expired."""
        now_s = self._clock.monotonic()
        for group, locks in list(self._groups.items()):
            self._remove(group, [q for q, lock in locks.items() if _is_expired(lock, now_s)])

    def _expire_some(self) -> bool:
        self.expire()
        return self._count < LOCKS_MAX

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        self._groups.setdefault(group, {})[queue] = lock
        self._count += 1

    def _remove(self, group: str, queues: list[MessageQueue]) -> None:
        if not queues:
            return
        locks = self._groups[group]
        for queue in queues:
            del locks[queue]
        self._count -= len(queues)
        if not locks:
            del self._groups[group]
        try:
            self._metadata.remove_order_locks([(group, *queue) for queue in queues])
        except WriteFailedError as e:
            log.warning("released locks of group %s come back after a restart: %s", group, e)

    def _save(self, rows: list[tuple[str, str, str, int, str]]) -> None:
        try:
            self._metadata.save_order_locks(rows)
        except WriteFailedError as e:
            # A full disk must not end consumption; without a restart the lock is as good.
            log.warning("locks would be forgotten by a restart of the broker: %s", e)


def _is_expired(lock: _Lock, now_s: float) -> bool:
    return now_s - lock.renewed_s > LOCK_LIFE_S
