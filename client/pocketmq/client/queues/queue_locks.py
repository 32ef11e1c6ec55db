"""The queues that a member may work on: all that are allocated to it, or those it has locked."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.log_fields import log_fields
from pocketmq.client.queues.orderly_queue import OrderlyQueue, QueueLock
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.consuming import LockBatchRequest, UnlockBatchRequest

log = logging.getLogger("pocketmq.client")

LOCK_TIMEOUT_MS = 1_000
"""How long a broker may take to answer 41 or 42, as in RocketMQ."""

LOCK_LIFE_S = 60.0
"""After so long without renewal the broker may have lent the queue to another member."""

FIRST_RENEWAL_S = 1.0
RENEWAL_PERIOD_S = 20.0
"""When locks are renewed (`ConsumeMessageOrderlyService#start`)."""


class Locks(Protocol):
    """Decides which queues a member may work on.

    Attributes:
        concurrency: how many batches of one queue may be at work at once; 0 for any number.
    """

    concurrency: int

    async def take(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Takes those of the queues that can be had now, and returns them."""

    async def renew(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Renews the hold on queues; returns those that were lost."""

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Lets other members have queues."""

    @property
    def taken(self) -> list[MessageQueue]:
        """The queues that are, or may be, kept from other members."""

    def process_queue(self, queue: MessageQueue, offset: int) -> ProcessQueue:
        """Makes the process queue of a queue that was taken."""


class NoLocks:
    """Locks nothing: for listeners that handle messages concurrently.

    Args:
        concurrency: of one queue.
    """

    def __init__(self, concurrency: int) -> None:
        self.concurrency = concurrency

    async def take(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Returns all of the queues."""
        return list(queues)

    async def renew(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Returns nothing, since nothing is lost."""
        return []

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Does nothing, since nothing is held."""

    @property
    def taken(self) -> list[MessageQueue]:
        """No queue."""
        return []

    def process_queue(self, queue: MessageQueue, offset: int) -> ProcessQueue:
        """Makes an ordinary process queue."""
        return ProcessQueue(queue, offset, self.concurrency)


class BrokerLocks:
    """Locks queues in their brokers (`RebalanceImpl#lock`, `lockAll`, `unlock`).

    Each is asked for, renewed and released by one request at a time, so that no broker, however
    many threads it has, sees a release before the renewal that went ahead of it.

    Args:
        group: the consumer group.
        instance: the member's; it must be running.
    """

    def __init__(self, group: str, instance: ClientInstance) -> None:
        self.concurrency = 1
        self._group, self._client_id = group, instance.client_id
        self._pool, self._routes, self._clock = instance.pool, instance.routes, instance.clock
        self._namespace = instance.namespace
        self._locks: dict[MessageQueue, QueueLock] = {}
        self._mutex = asyncio.Lock()

    async def take(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Locks those of the queues that are free, and returns them."""
        async with self._mutex:
            asked_s = self._clock.monotonic()
            asked = {queue: QueueLock(self._clock) for queue in queues}
            self._locks.update(asked)  # if this is cancelled, what was got must be released
            held = await self._held_of(asked)
            for queue, lock in asked.items():
                if queue in held:
                    lock.renewed_s = asked_s
                else:
                    del self._locks[queue]
        return sorted(held)

    async def renew(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Renews locks; an unanswered renewal is repeated with the next one.

        Returns:
            Queues that are another's now, or may have been in between.
        """
        async with self._mutex:
            asked_s = self._clock.monotonic()
            wanted = [queue for queue in queues if queue in self._locks]
            unanswered: set[str] = set()
            held = await self._held_of(wanted, unanswered)
            lost = []
            for queue in wanted:
                lock = self._locks[queue]
                if queue in held and asked_s - lock.renewed_s <= LOCK_LIFE_S:
                    lock.renewed_s = asked_s
                elif queue.broker_name not in unanswered:
                    lock.renewed_s = -math.inf
                    lost.append(queue)
        return lost

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Unlocks queues; locks of brokers that cannot be reached expire there."""
        async with self._mutex:
            known = [q for q in queues if self._locks.pop(q, None) is not None]
            await asyncio.gather(*(self._unlock(*part) for part in _by_broker(known)))

    @property
    def taken(self) -> list[MessageQueue]:
        """The queues that are, or are just being, locked."""
        return list(self._locks)

    def process_queue(self, queue: MessageQueue, offset: int) -> ProcessQueue:
        """Makes one that hands out a batch at a time, and only while the lock is valid."""
        return OrderlyQueue(queue, offset, self._locks[queue])

    async def _held_of(
        self, queues: Iterable[MessageQueue], unanswered: set[str] | None = None
    ) -> set[MessageQueue]:
        parts = _by_broker(queues)
        answers = await asyncio.gather(*(self._lock(*part) for part in parts))
        held: set[MessageQueue] = set()
        for (broker_name, _), answer in zip(parts, answers, strict=True):
            if answer is not None:
                held.update(answer)
            elif unanswered is not None:
                unanswered.add(broker_name)
        return held

    async def _lock(
        self, broker_name: str, queues: list[MessageQueue]
    ) -> list[MessageQueue] | None:
        """Returns the queues that this member holds now; None if the broker does not answer."""
        address = self._routes.master_address(broker_name)
        if address is None:
            return None
        body = self._body(queues)
        try:
            answer = await self._pool.ask(address, LockBatchRequest(), LOCK_TIMEOUT_MS, body)
            held = map(self._namespace.unwrap_queue, LockBatchResult.decode(answer.body).queues)
        except (OperatingError, PeerError) as e:
            about = log_fields(self._group) | {"broker_name": broker_name}
            log.warning(
                "group %s: %s locks no queues now: %s", self._group, broker_name, e, extra=about
            )
            return None
        wanted = set(queues)
        return [q for q in held if q in wanted]

    def _body(self, queues: Iterable[MessageQueue]) -> bytes:
        namespace = self._namespace
        on_wire = [namespace.wrap_queue(queue) for queue in queues]
        return LockBatchBody.of(namespace.wrap(self._group), self._client_id, on_wire).encode()

    async def _unlock(self, broker_name: str, queues: list[MessageQueue]) -> None:
        address = self._routes.master_address(broker_name)
        if address is None:
            return
        body = self._body(queues)
        try:
            await self._pool.ask(address, UnlockBatchRequest(), LOCK_TIMEOUT_MS, body)
        except (OperatingError, PeerError) as e:
            about = log_fields(self._group) | {"broker_name": broker_name}
            log.info(
                "group %s: locks of %s are left to expire: %s",
                self._group,
                broker_name,
                e,
                extra=about,
            )


class BroadcastLocks(BrokerLocks):
    """Gives every member every queue, as broadcasting does; no broker is asked."""

    async def take(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Returns all of the queues, for good."""
        taken = list(queues)
        for queue in taken:
            lock = self._locks[queue] = QueueLock(self._clock)
            lock.renewed_s = math.inf
        return taken

    async def renew(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        """Returns nothing, since nothing is lost."""
        return []

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Drops what is known of the queues."""
        for queue in queues:
            self._locks.pop(queue, None)


def _by_broker(queues: Iterable[MessageQueue]) -> list[tuple[str, list[MessageQueue]]]:
    parts: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        parts[queue.broker_name].append(queue)
    return sorted(parts.items())
