"""The lite pull consumer, which fetches messages ahead until the application polls them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from pocketmq.client.consumers.group_member import GroupMember
from pocketmq.client.consumers.lite_pull_membership import LitePullMembership
from pocketmq.client.errors import ClosedError, SeekError
from pocketmq.client.hooks import COMMON, ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.client.rebalance.allocators import AssignedQueues
from pocketmq.client.rebalance.queue_listeners import (
    MessageQueueListener,
    TopicQueuesListener,
)
from pocketmq.client.settings import InstanceSettings, LitePullSettings, take_settings
from pocketmq.protocol.bodies.clients import (
    CONSUME_ACTIVELY,
    SUBSCRIBE_ALL,
    ConsumerData,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.runtime.clock import Clock


class LitePullConsumer(GroupMember[LitePullMembership]):
    """Gives messages when it is polled (`client/consumer/DefaultLitePullConsumer`)::

        async with LitePullConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("Orders", "new || changed")
            while True:
                for message in await consumer.poll(): ...

    `subscribe` shares topics with the other members of the group, `assign` names queues; a
    consumer does one of the two, and so should all members of a group. It may also be iterated
    over: ``async for message in consumer``.

    Messages are pulled ahead, within the limits of `LitePullSettings`. With `auto_commit` a poll
    says that all that the polls before it gave was handled; so does `close`, but not an ``async
    with`` block that ends by an exception. Without it `commit` says so. What was not handled comes
    again, to this member or another one; there are neither retry topics nor dead letters, as in
    RocketMQ. One task should poll: with several, one speaks for the others.

    Args:
        group: the consumer group, which divides the queues among its members.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        allocate: how queues are divided; all members must use the same.
        hooks: functions to call for the messages of each poll, which count as handled.
        instance: a shared instance instead of one of the consumer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `LitePullSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    settings: LitePullSettings

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        allocate: AllocateStrategy = allocate_averagely,
        hooks: ConsumeHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        mine, rest = take_settings(LitePullSettings, settings, InstanceSettings)
        lease = InstanceLease(instance, namesrv, clock, random, rest)
        hooks = (hooks or ConsumeHooks()) + COMMON.receiving
        super().__init__(group, lease, mine, allocate, hooks)
        self._queue_listeners: dict[str, MessageQueueListener | None] = {}
        self._topic_listeners: dict[str, TopicQueuesListener] = {}
        self._assigned: tuple[MessageQueue, ...] | None = None
        self._is_polled_handled = True

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_polled_handled = exc_info[0] is None
        await self.close()

    # -- subscriptions ------------------------------------------------------------------------

    def subscribe(
        self,
        topic: str,
        expression: Expression = SUBSCRIBE_ALL,
        listener: MessageQueueListener | None = None,
    ) -> None:
        """Subscribes to a topic, before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: tags, such as ``"TagA || TagB"``, or a `MessageSelector`. What brokers
                say of SQL92 comes from `start`, or from `check_subscriptions` after it.
            listener: called when this member's queues of the topic change.

        Raises:
            IllegalNameError: the name is illegal.
            UsageError: this consumer has assigned queues.
        """
        if self._assigned is not None:
            raise UsageError("this consumer has assigned queues: subscribe with another one")
        self._subscribe(topic, expression)
        self._queue_listeners[topic] = listener
        if self._membership is not None:
            self._membership.queues.listeners.set(topic, listener)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        self._queue_listeners.pop(topic, None)
        was_there = self._assigned is None and self._subscriptions.pop(topic, None) is not None
        if was_there and self._membership is not None:
            self._membership.queues.listeners.set(topic, None)
            self._membership.queues.subscription_changed(topic)

    def assign(
        self, queues: Iterable[MessageQueue], expression: Expression = SUBSCRIBE_ALL
    ) -> None:
        """Assigns queues to pull, before or after the start; a later call replaces them.

        Args:
            queues: of any topics.
            expression: which of their messages; see `subscribe`.

        Raises:
            UsageError: there are no queues, or this consumer has subscribed to topics.
        """
        assigned = tuple(sorted(queues))
        if not assigned:
            raise UsageError("assign needs at least one queue")
        if self._assigned is None and self._subscriptions:
            raise UsageError("this consumer has subscribed to topics: assign with another one")
        self._assigned, self.is_waiting = assigned, False
        version_ms, before = self.instance.next_version_ms(), self._subscriptions.keys()
        topics = {queue.topic for queue in assigned}
        for topic in before - topics:
            del self._subscriptions[topic]
        for topic in topics:
            self._subscriptions[topic] = subscription_of(topic, expression, version_ms)
        for topic in topics:
            self._subscription_changed(topic)

    async def listen_to_topic(self, topic: str, listener: TopicQueuesListener) -> None:
        """Sets the listener to all queues of a topic, not only this member's.

        That is looked at every `topic_metadata_check_interval_ms`
        (`registerTopicMessageQueueChangeListener`).

        Raises:
            NoNameServerError: the name server cannot be asked what the queues are now.
        """
        self._topic_listeners[topic] = listener
        if self._is_running and self._membership is not None:
            await self._membership.watch.add(topic, listener)

    # -- as its instance sees it --------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat; assigned queues are no subscriptions."""
        wanted = self._subscriptions if self._assigned is None else {}
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_ACTIVELY,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=[s for _, s in sorted(wanted.items())],
        )

    # -- life ---------------------------------------------------------------------------------

    async def _join(self) -> None:
        parts = await self._new_parts(is_lite=True)
        self._is_polled_handled = True
        allocator = AssignedQueues(parts.allocator, lambda: self._assigned)
        membership = LitePullMembership(parts._replace(allocator=allocator), self.settings)
        self._membership = membership
        for topic, listener in self._queue_listeners.items():
            membership.queues.listeners.set(topic, listener)
        await membership.start(self._topic_listeners)

    async def close(self) -> None:
        """Stores the offsets, and leaves the group. Idempotent.

        With `auto_commit`, what was polled counts as handled.
        """
        await super().close()

    async def _end(self, membership: LitePullMembership) -> None:
        await membership.close(settles=self._is_polled_handled and self.settings.auto_commit)

    # -- messages -----------------------------------------------------------------------------

    async def poll(self, timeout_ms: float | None = None) -> list[ReceivedMessage]:
        """Returns the next messages of one queue, at most `pull_batch_size`, in offset order.

        Args:
            timeout_ms: how long to wait for one; `poll_timeout_ms` if it is not given. 0 gives
                what is there.

        Returns:
            None at all when the time is over.

        Raises:
            ClosedError: the consumer is closed, perhaps meanwhile.
            UsageError: the time is negative.
        """
        if timeout_ms is None:
            timeout_ms = self.settings.poll_timeout_ms
        if timeout_ms < 0:
            raise UsageError(f"timeout_ms must not be negative: {timeout_ms}")
        membership = self._running()
        messages = await membership.queues.poll(self.settings.pull_batch_size, timeout_ms)
        if not messages:
            self._running()
        membership.call_hooks(messages)
        return messages

    async def __anext__(self) -> ReceivedMessage:
        if not self._is_running:
            raise StopAsyncIteration
        membership = self._running()
        messages = await membership.queues.poll(1, None)
        if not messages:
            raise StopAsyncIteration
        membership.call_hooks(messages)
        return messages[0]

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pauses queues: neither pulls nor hands out their messages until `resume`.

        Queues of other members are left out; one that comes back is not paused.
        """
        self._running().queues.pause_some(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Resumes paused queues."""
        self._running().queues.resume_some(queues)

    # -- offsets ------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores the group's offsets; those that cannot be stored now are stored later.

        Args:
            offsets: for each queue the first offset that was not handled; without them, all that
                was polled was handled. A queue that is not this member's any more is left out:
                its messages come again to the member that has it now.

        Raises:
            UsageError: an offset is negative.
        """
        queues = self._running().queues
        if offsets is None:
            queues.settle()
        else:
            if any(offset < 0 for offset in offsets.values()):
                raise UsageError(f"an offset to commit must not be negative: {dict(offsets)}")
            for queue, offset in offsets.items():
                queues.settle_at(queue, offset)
        await queues.persist()

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the group's stored offset in a queue; None if there is none.

        Raises:
            RouteError, NoNameServerError, ResponseError and the transport's errors.
        """
        return await self._running().offsets.committed(queue)

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at an offset; pulled messages of the queue that were not polled are dropped.

        Raises:
            SeekError: the queue does not hold it.
            UsageError: the queue is not this member's.
            RouteError, NoNameServerError, ResponseError and the transport's errors.
        """
        in_queues = self._check_owned(queue).in_queues
        low, high = await asyncio.gather(in_queues.min(queue), in_queues.max(queue))
        if not low <= offset <= high:
            raise SeekError(queue, offset, low, high)
        self._check_owned(queue).queues.seek(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continues with the oldest message. Raises what `seek` raises."""
        offset = await self._check_owned(queue).in_queues.min(queue)
        self._check_owned(queue).queues.seek(queue, offset)

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continues with the next message that is sent. Raises what `seek` raises."""
        offset = await self._check_owned(queue).in_queues.max(queue)
        self._check_owned(queue).queues.seek(queue, offset)

    async def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Continues with the first message stored at that time or later, else at the end.

        Raises:
            What `seek` raises.
        """
        self._check_owned(queue)
        await self.seek(queue, await self.offset_for_timestamp(queue, timestamp_ms))

    async def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset stored at that time or later.

        Args:
            queue: where to search.
            timestamp_ms: milliseconds since the epoch.
        """
        return await self._running().in_queues.at_time(queue, timestamp_ms)

    # -- queues -------------------------------------------------------------------------------

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted."""
        return [] if self._membership is None else self._membership.queues.own

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns all queues of a topic that can be pulled from, sorted by broker and number.

        Raises:
            UnknownTopicError, NoPermissionRouteError, NoNameServerError.
        """
        self._running()
        return await self.instance.routes.queues_to_read(topic)

    def _check_owned(self, queue: MessageQueue) -> LitePullMembership:
        membership = self._running()
        if not membership.queues.holds(queue):
            raise UsageError(
                f"{queue} is not among the queues of this consumer (`assignment`): perhaps they "
                f"are being shared out anew"
            )
        return membership

    def _running(self) -> LitePullMembership:
        if not self._is_running or self._membership is None:
            raise ClosedError(f"lite pull consumer of group {self.group}")
        return self._membership
