"""Locks by which one member of a group has a queue to itself (`broker/client/rebalance`)."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice, takewhile
from typing import NamedTuple

from pocketmq.broker.store.disk.errors import WriteFailedError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.broker")

LOCK_LIFE_S = 60.0
"""How long a lock holds that is not renewed (`REBALANCE_LOCK_MAX_LIVE_TIME`)."""

LOCKS_MAX = 100_000
"""Locks of all groups together; who asks for more gets none until some expire."""

LOCKS_OF_GROUP_MAX = 20_000
"""Locks of one group, and of all groups together that one connection asked for."""

EXPIRED_PER_TURN_MAX = 1000
"""Locks that one turn of the loop drops, so that sends and pulls get theirs."""

SWEEP_PERIOD_S = 1.0
"""While there are too many locks, so often a request that finds no room looks for expired ones."""


class LockLimits(NamedTuple):
    """How many locks there may be.

    Attributes:
        total: of all groups together.
        of_group: of one group, and of those that one connection asked for.
    """

    total: int = LOCKS_MAX
    of_group: int = LOCKS_OF_GROUP_MAX


class _Lock:
    __slots__ = ("client_id", "holder", "renewed_s")

    def __init__(self, client_id: str, renewed_s: float, holder: object) -> None:
        self.client_id, self.renewed_s, self.holder = client_id, renewed_s, holder


class OrderLocks:
    """The locks of all groups.

    A lost connection releases nothing: its client may still be at work. Owners are kept in the
    metadata, so that after a restart of the broker nobody is faster than the owner; the life of
    those locks begins anew with the broker's (RocketMQ's are free then).

    Args:
        metadata: where owners are kept.
        clock: by which locks expire.
        limits: how many there may be.
    """

    def __init__(self, metadata: Metadata, clock: Clock, limits: LockLimits | None = None) -> None:
        self._metadata, self._clock, self._limits = metadata, clock, limits or LockLimits()
        # The locks of each group stand in the order of their renewals.
        self._groups: dict[str, dict[MessageQueue, _Lock]] = {}
        self._count = 0
        self._of_holder: Counter[object] = Counter()
        self._swept_s = -SWEEP_PERIOD_S
        now_s = clock.monotonic()
        for group, topic, broker_name, queue_id, client_id in metadata.order_locks():
            self._put(
                group, MessageQueue(topic, broker_name, queue_id), _Lock(client_id, now_s, None)
            )

    def __len__(self) -> int:
        return self._count

    def lock(
        self,
        group: str,
        queues: Iterable[MessageQueue],
        client_id: str,
        holder: object = None,
    ) -> list[MessageQueue]:
        """Gives a client the locks that are free, expired or its own already, and renews them.

        Args:
            group: whose member the client is.
            queues: those that it wants.
            client_id: of the client.
            holder: its connection, by which locks are counted, too; None counts nothing.

        Returns:
            The queues that are the client's now.
        """
        now_s = self._clock.monotonic()
        locks = self._groups.get(group, {})
        held, taken, refused = [], [], 0
        reason = ""
        for queue in queues:
            lock = locks.get(queue)
            if lock is None:
                reason = reason or self._full(locks, holder)
                if reason:
                    refused += 1
                    continue
                lock = _Lock(client_id, now_s, holder)
                self._put(group, queue, lock)
                locks = self._groups[group]
                taken.append(queue)
            else:
                if lock.client_id != client_id:
                    if not _is_expired(lock, now_s):
                        continue
                    lock.client_id = client_id
                    taken.append(queue)
                self._renew(locks, queue, lock, now_s, holder)
            held.append(queue)
        if refused:
            log.warning("group %s: %d queues are not locked for %s: %s", group, refused, client_id,
                        reason)  # fmt: skip
        self._save([(group, *queue, client_id) for queue in taken])
        return held

    def _full(self, locks: Mapping[MessageQueue, _Lock], holder: object) -> str:
        """Why there is no room for another lock; empty if there is."""
        total, of_group = self._limits
        if len(locks) >= of_group:
            return f"the group has {of_group} locks (maxOrderLocksOfGroup)"
        if holder is not None and self._of_holder[holder] >= of_group:
            return f"its connection has {of_group} locks (maxOrderLocksOfGroup)"
        if self._count >= total and not self._expire_some():
            return f"there are {total} locks (maxOrderLocks); some may expire soon"
        return ""

    def _renew(
        self,
        locks: dict[MessageQueue, _Lock],
        queue: MessageQueue,
        lock: _Lock,
        now_s: float,
        holder: object,
    ) -> None:
        del locks[queue]
        locks[queue] = lock
        lock.renewed_s = now_s
        if holder is not None and lock.holder is not holder:
            self._count_for(lock.holder, -1)
            self._count_for(holder, 1)
            lock.holder = holder

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Releases the client's own locks among those named."""
        locks = self._groups.get(group, {})
        named = dict.fromkeys(queues)
        released = [q for q in named if q in locks and locks[q].client_id == client_id]
        self._remove([(group, queue) for queue in released])

    def holds_any(self, group: str) -> bool:
        """Whether a group consumes in order: any of its locks has not expired."""
        locks = self._groups.get(group)
        if not locks:
            return False
        return not _is_expired(next(reversed(locks.values())), self._clock.monotonic())

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
        return self._count < self._limits.total

    def _drop_expired(self) -> int:
        now_s = self._clock.monotonic()
        expired = (
            (group, queue)
            for group, locks in self._groups.items()
            for queue, _ in takewhile(lambda item: _is_expired(item[1], now_s), locks.items())
        )
        dropped = list(islice(expired, EXPIRED_PER_TURN_MAX))
        self._remove(dropped)
        return len(dropped)

    def _put(self, group: str, queue: MessageQueue, lock: _Lock) -> None:
        self._groups.setdefault(group, {})[queue] = lock
        self._count += 1
        self._count_for(lock.holder, 1)

    def _count_for(self, holder: object, change: int) -> None:
        if holder is not None:
            self._of_holder[holder] += change
            if not self._of_holder[holder]:
                del self._of_holder[holder]

    def _remove(self, released: list[tuple[str, MessageQueue]]) -> None:
        for group, queue in released:
            locks = self._groups[group]
            self._count_for(locks.pop(queue).holder, -1)
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
