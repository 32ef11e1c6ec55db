"""The queues that are this member's now: shared out, taken, pulled, given up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pocketmq.client.assignment import Assignment, Share
from pocketmq.client.instance import ClientInstance
from pocketmq.client.offsets import GroupOffsets
from pocketmq.client.process_queue import ProcessQueue
from pocketmq.client.pulling import Puller
from pocketmq.client.queue_loop import QueueLoop
from pocketmq.client.rebalancing import Rebalancing
from pocketmq.client.settings import PushSettings
from pocketmq.client.subscription_check import check_subscriptions
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.names import retry_topic
from pocketmq.transport.tasks import Tasks, repeat

log = logging.getLogger("pocketmq.client")

RETRY_ROUTE_LOOKS_MAX = 3
"""How often a retry topic that does not exist is looked for before it counts as settled.

A broker creates it when it first hears of the group; an older PocketMQ never does.
"""


class MemberQueues:
    """Keeps a member's queues in line with its share of the group (`RebalancePushImpl`).

    Args:
        group: the consumer group.
        subscriptions: by topic, as they are at any time; the consumer's own.
        settings: limits, pauses and periods.
        instance: the connections, routes and heartbeats; it must be running.
        offsets: where the group stands.
        assignment: works out the member's share.
        puller: asks the brokers.
        offer: called when a queue has something to hand out.
    """

    def __init__(
        self,
        group: str,
        subscriptions: Mapping[str, Subscription],
        settings: PushSettings,
        instance: ClientInstance,
        offsets: GroupOffsets,
        assignment: Assignment,
        puller: Puller,
        offer: Callable[[ProcessQueue], object],
    ) -> None:
        self._group, self._retry_topic = group, retry_topic(group)
        self._subscriptions, self._settings, self._instance = subscriptions, settings, instance
        self._offsets, self._puller = offsets, puller
        self._offer = offer
        self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
        self._loops: dict[MessageQueue, QueueLoop] = {}
        self._pulls: dict[MessageQueue, asyncio.Task[Any]] = {}
        self._rebalancing = Rebalancing(
            subscriptions, assignment, instance, settings.rebalance_interval_ms, self._take
        )
        self._tasks = Tasks()
        self._is_paused = False

    @property
    def own(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that are this member's now, sorted."""
        return sorted(q for q in self._loops if q.topic != self._retry_topic)

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes the member's share, and keeps it up to date from now on.

        Raises:
            NoNameServerError: none of the name servers can be asked.
            ResponseError: a broker cannot serve one of the subscriptions.
        """
        for topic in list(self._subscriptions):
            await self._instance.routes.subscribe(topic)
        await self.check()
        await self._rebalancing.once()
        clock, persist_s = self._instance.clock, self._settings.persist_interval_ms / 1000
        self._tasks.spawn(self._rebalancing.run(), f"rebalance {self._group}")
        self._tasks.spawn(repeat(clock, persist_s, self.persist), f"offsets {self._group}")

    async def stop(self) -> None:
        """Pulls nothing more and leaves the queues as they are. Idempotent."""
        await self._tasks.close()
        self._pulls.clear()

    async def close(self) -> None:
        """Stores the offsets of what was finished, and gives all queues up. Idempotent."""
        await self.stop()
        await self.persist()
        self._loops.clear()

    def pause(self) -> None:
        """Begins no further pulls. Idempotent."""
        self._is_paused = True
        for loop in self._loops.values():
            loop.pause()

    def resume(self) -> None:
        """Goes on pulling. Idempotent."""
        self._is_paused = False
        for loop in self._loops.values():
            loop.resume()

    # -- what others tell ---------------------------------------------------------------------

    def group_changed(self) -> None:
        """Members came or went: share the queues out anew."""
        self._rebalancing.due()

    def subscription_changed(self, topic: str) -> None:
        """A topic is wanted in another way, for the first time, or not any more."""
        subscription = self._subscriptions.get(topic)
        if subscription is not None:
            for queue, loop in self._loops.items():
                if queue.topic == topic:
                    loop.subscription = subscription
            self._tasks.spawn(self._check_new(subscription), f"check {topic}")
        self._rebalancing.topics_changed()

    def finished(self, messages: ProcessQueue) -> None:
        """A batch was finished: its queue may go on pulling."""
        loop = self._loops.get(messages.queue)
        if loop is not None:
            loop.finished(messages)

    def sent_back(self) -> None:
        """A broker took a message back: now at the latest there is a retry topic."""
        if not self._retry_looks_left:
            self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
            self._rebalancing.due()

    # -- sharing out --------------------------------------------------------------------------

    async def check(self) -> None:
        """Asks the brokers whether they can serve the subscriptions.

        Raises:
            What `check_subscriptions` raises.
        """
        await check_subscriptions(self._group, self._instance, self._subscriptions.values())

    async def _check_new(self, subscription: Subscription) -> None:
        """The same for what was subscribed to lately; nobody waits for the answer but the log."""
        try:
            await check_subscriptions(self._group, self._instance, [subscription])
        except OperatingError as e:
            log.error("group %s: the brokers may not serve what it wants: %s", self._group, e)

    async def _take(self, shares: Mapping[str, Share]) -> bool:
        kept_topics = {t for t, share in shares.items() if share.queues is None}
        wanted = {queue for share in shares.values() for queue in share.queues or ()}
        lost = [q for q in self._loops if q not in wanted and q.topic not in kept_topics]
        await self._lose(lost)
        gained = sorted(wanted - self._loops.keys())
        outcomes = await asyncio.gather(*(self._gain(queue) for queue in gained))
        pending = {t for t, share in shares.items() if not share.is_settled}
        return all(outcomes) and not self._worth_another_look(pending)

    def _worth_another_look(self, pending: set[str]) -> bool:
        """Whether the topics that could not be shared out may be found soon."""
        if self._retry_topic not in pending:
            self._retry_looks_left = RETRY_ROUTE_LOOKS_MAX
        elif self._retry_looks_left:
            self._retry_looks_left -= 1
        else:
            pending.discard(self._retry_topic)
        return bool(pending)

    async def _lose(self, queues: Iterable[MessageQueue]) -> None:
        stored: list[tuple[MessageQueue, int]] = []
        for queue in queues:
            loop = self._loops.pop(queue)
            loop.messages.dropped = True
            self._pulls.pop(queue).cancel()
            self._puller.forget(queue)
            stored.append((queue, loop.messages.commit_offset))
        if stored:
            log.info("group %s: gives up %s", self._group, ", ".join(str(q) for q, _ in stored))
            await self._offsets.store(stored)
        for queue, _ in stored:
            self._offsets.forget(queue)

    async def _gain(self, queue: MessageQueue) -> bool:
        subscription = self._subscriptions.get(queue.topic)
        try:
            offset = await self._offsets.load(queue)
        except OperatingError as e:
            log.warning("group %s: the offset of %s is not known: %s", self._group, queue, e)
            return False
        if subscription is None:
            return True
        loop = QueueLoop(
            queue,
            offset,
            subscription,
            self._puller,
            self._settings,
            self._instance.clock,
            self._offer,
            is_retry=queue.topic == self._retry_topic,
        )
        log.info("group %s: takes %s from offset %d", self._group, queue, offset)
        if self._is_paused:
            loop.pause()
        self._loops[queue] = loop
        self._pulls[queue] = self._tasks.spawn(loop.run(), f"pull {queue}")
        return True

    async def persist(self) -> None:
        """Stores the offsets that changed."""
        await self._offsets.store(
            [(queue, loop.messages.commit_offset) for queue, loop in self._loops.items()]
        )
