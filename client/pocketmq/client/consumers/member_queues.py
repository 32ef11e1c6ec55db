"""The queues that are allocated to a member: taken, pulled, given up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.subscription_check import check_subscriptions
from pocketmq.client.log_fields import log_fields
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.queue_locks import FIRST_RENEWAL_S, RENEWAL_PERIOD_S, Locks
from pocketmq.client.queues.queue_loop import QueueLoop
from pocketmq.client.rebalance.allocators import Allocation
from pocketmq.client.rebalance.rebalance_loop import RebalanceLoop
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.errors import NoPermissionError, OperatingError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import retry_topic
from pocketmq.runtime.tasks import Tasks, repeat

log = logging.getLogger("pocketmq.client")

RETRY_ROUTE_LOOKS_MAX = 3
"""How often a retry topic that does not exist is looked for before it counts as settled.

A broker creates it when it first hears of the group; an older PocketMQ never does.
"""

LOCK_RETRY_PAUSE_MS = 500
"""How soon queues are shared out again when another member had not released one, as in RocketMQ."""


class MemberQueues:
    """Pulls the queues that are allocated to a member (`RebalancePushImpl`).

    Args:
        parts: of the member.
        locks: decides which of the allocated queues the member may work on now.
        offer: called when a queue has something to hand out.
    """

    def __init__(
        self, parts: MemberParts, locks: Locks, offer: Callable[[ProcessQueue], object]
    ) -> None:
        self._group, self._retry_topic = parts.member.group, retry_topic(parts.member.group)
        self._subscriptions, self._settings = parts.subscriptions, parts.settings
        self._instance, self._offsets, self._puller = parts.instance, parts.offsets, parts.puller
        self._locks, self._offer = locks, offer
        self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
        self._loops: dict[MessageQueue, QueueLoop] = {}
        self._leaving: dict[MessageQueue, ProcessQueue] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._rebalancing = RebalanceLoop(
            parts.subscriptions,
            parts.allocator,
            parts.instance,
            parts.settings.rebalance_interval_ms,
            self._take,
        )
        self._tasks = Tasks()
        self._renewal = Tasks()
        self._is_paused = False
        self._is_stopped = False
        self._is_giving_up = False

    @property
    def own(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that are this member's now, sorted."""
        return sorted(q for q in self._loops if q.topic != self._retry_topic)

    @property
    def loops(self) -> Mapping[MessageQueue, QueueLoop]:
        """The pull loops of all queues that are this member's now."""
        return self._loops

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes the allocated queues, and follows each later allocation.

        Raises:
            NoNameServerError: none of the name servers can be asked.
            ResponseError: a broker cannot serve one of the subscriptions.
            NoPermissionError: brokers do not let the user consume.
        """
        for topic in list(self._subscriptions):
            await self._instance.routes.subscribe(topic)
        await self.check()
        await self._rebalancing.rebalance()
        if not self._loops:
            self.check_refusal()
        clock, persist_s = self._instance.clock, self._settings.persist_interval_ms / 1000
        if self._settings.is_ordered:
            self._renewal.spawn(
                repeat(clock, RENEWAL_PERIOD_S, self._renew_locks, first_s=FIRST_RENEWAL_S),
                f"locks {self._group}",
            )
        self._tasks.spawn(self._rebalancing.run(), f"rebalance {self._group}")
        self._tasks.spawn(repeat(clock, persist_s, self.persist), f"offsets {self._group}")

    async def stop(self) -> None:
        """Ends all pulls, and keeps the queues and their messages. Idempotent."""
        self._is_stopped = True
        await self._tasks.close()
        self._pulls.clear()

    async def close(self, kept: Iterable[ProcessQueue] = ()) -> None:
        """Stores the offsets of finished messages, and gives all queues up. Idempotent.

        Args:
            kept: queues that no other member may have yet; their locks expire.
        """
        await self.stop()
        await self._renewal.close()
        await self._store([*self._leaving.values(), *self._own_messages()])
        kept_queues = {messages.queue for messages in kept}
        await self._locks.release(q for q in self._locks.taken if q not in kept_queues)
        self._loops.clear()
        self._leaving.clear()

    def pause(self) -> None:
        """Begins no further pulls. Idempotent."""
        self._is_paused = True
        for loop in self._loops.values():
            loop.pause()

    def resume(self) -> None:
        """Begins pulls again. Idempotent."""
        self._is_paused = False
        for loop in self._loops.values():
            loop.resume()

    def limit_batches(self, concurrency: int) -> None:
        """Sets how many batches of one queue may be handled at once; 0 for any number."""
        self._locks.concurrency = concurrency
        for loop in self._loops.values():
            loop.messages.concurrency = concurrency
            self._offer(loop.messages)

    # -- events -------------------------------------------------------------------------------

    def group_changed(self) -> None:
        """Allocates the queues anew, because members came or went."""
        self._rebalancing.request()

    def subscription_changed(self, topic: str) -> None:
        """Follows a subscription that was added, changed or ended."""
        subscription = self._subscriptions.get(topic)
        if subscription is not None:
            for queue, loop in self._loops.items():
                if queue.topic == topic:
                    loop.subscription = subscription
                    self._pull_anew(queue, loop)
            self._tasks.spawn(self._check_new(subscription), f"check {topic}")
        self._rebalancing.topics_changed()

    def _pull_anew(self, queue: MessageQueue, loop: QueueLoop) -> None:
        """Replaces the pull under way, which a broker may hold with the old subscription."""
        pull = self._pulls.pop(queue, None)
        if pull is not None:  # otherwise the member is leaving
            pull.cancel()
            self._pulls[queue] = self._tasks.spawn(loop.run(), f"pull {queue}")

    def finished(self, messages: ProcessQueue) -> None:
        """Lets a queue pull further after a batch of it was finished."""
        queue = messages.queue
        loop = self._loops.get(queue)
        if loop is not None:
            loop.finished(messages)
        elif queue in self._leaving and not self._is_giving_up and not self._is_stopped:
            self._tasks.spawn(self._let_go([messages]), f"release {queue}")

    def sent_back(self) -> None:
        """Looks for the retry topic, which exists once a broker took a message back."""
        if not self._retry_looks_left:
            self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
            self._rebalancing.request()

    async def move(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Continues at other offsets in those of the queues that are this member's.

        What is at work is handled once more, if it lies behind the new offset.
        """
        for queue, offset in offsets.items():
            loop = self._loops.get(queue)
            if loop is not None:
                about = log_fields(self._group, queue)
                log.info(
                    "group %s: %s is put to offset %d", self._group, queue, offset, extra=about
                )
                loop.move(offset)
                self._pull_anew(queue, loop)
        await self.persist()

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why brokers do not let the user consume; None while they do."""
        refusals = [loop.refusal for loop in self._loops.values() if loop.refusal is not None]
        refusals += self._instance.heartbeats.refusals.values()
        return refusals[0] if refusals else None

    def check_refusal(self) -> None:
        """Checks that brokers let the user consume.

        Raises:
            NoPermissionError: one of them does not.
        """
        refusal = self.refusal
        if refusal is not None:
            raise NoPermissionError(refusal.code, refusal.remark, refusal.address)

    # -- allocation  --------------------------------------------------------------------------

    async def check(self) -> None:
        """Asks the brokers whether they can serve the subscriptions.

        Raises:
            What `check_subscriptions` raises.
        """
        await check_subscriptions(self._group, self._instance, self._subscriptions.values())

    async def _check_new(self, subscription: Subscription) -> None:
        """Checks a new subscription in the background; a refusal is only logged."""
        try:
            await check_subscriptions(self._group, self._instance, [subscription])
        except OperatingError as e:
            log.error(
                "group %s: the brokers may not serve what it wants: %s",
                self._group,
                e,
                extra=log_fields(self._group),
            )

    async def _take(self, allocations: Mapping[str, Allocation]) -> bool:
        kept_topics = {t for t, allocation in allocations.items() if allocation.queues is None}
        wanted = {queue for allocation in allocations.values() for queue in allocation.queues or ()}
        lost = [q for q in self._loops if q not in wanted and q.topic not in kept_topics]
        await self._lose(lost)
        missing = wanted - self._loops.keys()
        gained = await self._locks.take(sorted(missing - self._leaving.keys()))
        outcomes = await asyncio.gather(*(self._gain(queue) for queue in gained))
        if lost or gained:
            self._divide_thresholds()
        pending = {t for t, allocation in allocations.items() if not allocation.is_settled}
        lacks_locks = len(gained) < len(missing)
        if lacks_locks:
            soon_s = LOCK_RETRY_PAUSE_MS / 1000
            self._instance.clock.call_later(soon_s, self._rebalancing.request)
        return all(outcomes) and not lacks_locks and not self._worth_another_look(pending)

    def _divide_thresholds(self) -> None:
        """Limits each queue by its topic's thresholds (`RebalancePushImpl#messageQueueChanged`)."""
        settings = self._settings
        counts = Counter(queue.topic for queue in self._loops)
        for queue, loop in self._loops.items():
            count_max, size_max = (
                for_queue if for_topic == -1 else max(1, for_topic // counts[queue.topic])
                for for_queue, for_topic in (
                    (settings.pull_threshold_for_queue, settings.pull_threshold_for_topic),
                    (
                        settings.pull_threshold_size_for_queue,
                        settings.pull_threshold_size_for_topic,
                    ),
                )
            )
            loop.limit(count_max, size_max)

    def _worth_another_look(self, pending: set[str]) -> bool:
        """Whether the topics whose queues could not be allocated may be found soon."""
        if self._retry_topic not in pending:
            self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
        elif self._retry_looks_left:
            self._retry_looks_left -= 1
        else:
            pending.discard(self._retry_topic)
        return bool(pending)

    async def _lose(self, queues: Iterable[MessageQueue]) -> None:
        lost = [self._drop(queue) for queue in queues]
        if not lost:
            return
        names = ", ".join(str(m.queue) for m in lost)
        log.info("group %s: gives up %s", self._group, names, extra=log_fields(self._group))
        self._is_giving_up = True  # so that no later offset is stored before these
        try:
            await self._store(lost)
        finally:
            self._is_giving_up = False
        await self._let_go([m for m in lost if not m.is_busy])

    def _drop(self, queue: MessageQueue) -> ProcessQueue:
        """Ends the pulls of a lost queue; the listener may still have a batch of it."""
        messages = self._loops.pop(queue).messages
        messages.dropped = True
        self._pulls.pop(queue).cancel()
        self._puller.forget(queue)
        self._leaving[queue] = messages
        return messages

    async def _let_go(self, ended: Iterable[ProcessQueue]) -> None:
        """Releases lost queues, of which no batch is at work any more, to other members."""
        ended = list(ended)
        await self._store(ended)
        queues = [messages.queue for messages in ended]
        for queue in queues:
            self._offsets.forget(queue)
        await self._locks.release(queues)
        for queue in queues:
            self._leaving.pop(queue, None)

    async def _renew_locks(self) -> None:
        # What is being given up is not renewed: a batch that never ends must not keep it for ever.
        lost = [q for q in await self._locks.renew(list(self._loops)) if q in self._loops]
        if lost:
            log.warning(
                "group %s: the locks of %s were lost",
                self._group,
                ", ".join(map(str, lost)),
                extra=log_fields(self._group),
            )
            dropped = [self._drop(queue) for queue in lost]
            await self._let_go([m for m in dropped if not m.is_busy])
            self._rebalancing.request()
        for loop in self._loops.values():
            self._offer(loop.messages)

    async def _gain(self, queue: MessageQueue) -> bool:
        subscription = self._subscriptions.get(queue.topic)
        about = log_fields(self._group, queue)
        try:
            offset = await self._offsets.load(queue)
        except OperatingError as e:
            log.warning(
                "group %s: the offset of %s is not known: %s", self._group, queue, e, extra=about
            )
            await self._locks.release([queue])
            return False
        if subscription is None:
            await self._locks.release([queue])
            return True
        loop = self._make_loop(queue, offset, subscription)
        log.info("group %s: takes %s from offset %d", self._group, queue, offset, extra=about)
        if self._is_paused:
            loop.pause()
        self._loops[queue] = loop
        self._pulls[queue] = self._tasks.spawn(loop.run(), f"pull {queue}")
        return True

    def _make_loop(self, queue: MessageQueue, offset: int, subscription: Subscription) -> QueueLoop:
        return QueueLoop(
            queue,
            offset,
            subscription,
            self._puller,
            self._settings,
            self._instance.clock,
            self._offer,
            self._locks.process_queue,
            on_moved=self._offsets.moved,
            is_retry=queue.topic == self._retry_topic,
        )

    async def persist(self) -> None:
        """Stores the offsets that changed."""
        await self._store(self._own_messages())

    def _own_messages(self) -> list[ProcessQueue]:
        return [loop.messages for loop in self._loops.values()]

    async def _store(self, queues: Iterable[ProcessQueue]) -> None:
        await self._offsets.store([(m.queue, m.commit_offset) for m in queues if m.may_commit])
