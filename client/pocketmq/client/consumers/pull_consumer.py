"""The pull consumer, which pulls what the application asks for."""

from __future__ import annotations

from random import Random
from typing import Any

from pocketmq.client.errors import ClosedError
from pocketmq.client.hooks import COMMON, ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.lifecycle import Lifecycle, Startable
from pocketmq.client.listening.hooked_listener import call_hooks_for_pulled
from pocketmq.client.listening.send_back import SendBack
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.queues.pulling import PULL_MESSAGES_DEFAULT, Puller
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.client.rebalance.allocated_queues import AllocatedQueues
from pocketmq.client.rebalance.allocators import GroupAllocator
from pocketmq.client.rebalance.queue_listeners import MessageQueueListener
from pocketmq.client.results import PullResult
from pocketmq.client.settings import InstanceSettings, PullConsumerSettings, take_settings
from pocketmq.protocol.bodies.clients import (
    CONSUME_ACTIVELY,
    SUBSCRIBE_ALL,
    ConsumerData,
    Subscription,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import check_group
from pocketmq.runtime.clock import Clock

DEFAULT_CONSUMER_GROUP = "pocketmq_pull_consumer"


class PullConsumer(Startable):
    """Pulls messages queue by queue (`client/consumer/DefaultMQPullConsumer`)::

        async with PullConsumer("reports", "127.0.0.1:9876") as consumer:
            for queue in await consumer.queues("Orders"):
                result = await consumer.pull(queue, await consumer.min_offset(queue))

    Args:
        group: the consumer group.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        allocate: how `queues_in_balance` divides queues; all members must use the same.
        hooks: functions to call for the messages of each pull, which count as handled.
        instance: a shared instance instead of one of the consumer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `PullConsumerSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        group: str = DEFAULT_CONSUMER_GROUP,
        namesrv: NamesrvList = None,
        *,
        allocate: AllocateStrategy = allocate_averagely,
        hooks: ConsumeHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        check_group(group)
        self.group = group
        self._lifecycle = Lifecycle()
        self.is_waiting = False  # each pull says what to consume
        self.settings, rest = take_settings(PullConsumerSettings, settings, InstanceSettings)
        self._lease = InstanceLease(instance, namesrv, clock, random, rest)
        self._allocate = allocate
        self._hooks = (hooks or ConsumeHooks()) + COMMON.receiving
        self._topics: set[str] = set()
        self._is_running = False

    @property
    def instance(self) -> ClientInstance:
        """The instance that the consumer owns or shares."""
        return self._lease.instance

    async def start(self) -> None:
        """Makes the consumer usable. Idempotent.

        Raises:
            UsageError: the shared instance has a consumer of this group already.
        """
        if self._is_running:
            return
        await self._lease.acquire()
        instance = self.instance
        if self.settings.register:
            instance.groups.add_consumer(self)
        self._puller = Puller(self.group, instance, self.settings.pull_timeout_ms, self._hooks)
        self._offsets = QueueOffsets(
            instance.pool, instance.routes, instance.settings.call_timeout_ms
        )
        assignment = GroupAllocator(self.group, instance, self._allocate)
        self._allocated = AllocatedQueues(assignment, instance, self.settings.rebalance_interval_ms)
        self._send_back = SendBack(self.group, instance, self.settings.max_reconsume_times)
        self._is_running = True

    async def close(self) -> None:
        """Unregisters the consumer from its brokers and closes it. Idempotent."""
        await self._lifecycle.close(self._close)

    async def _close(self) -> None:
        if not self._is_running:
            return
        self._is_running = False
        await self._allocated.close()
        if self.settings.register:
            self.instance.groups.remove_consumer(self.group)
            await self.instance.heartbeats.unregister(consumer_group=self.group)
        await self._lease.release()

    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            consume_type=CONSUME_ACTIVELY,
            subscription_data_set=[Subscription(topic=t) for t in sorted(self._topics)],
        )

    def group_changed(self) -> None:
        """Allocates the queues anew, because members came or went."""
        if self._is_running:
            self._allocated.group_changed()

    # -- messages -----------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be pulled from, sorted by broker and number.

        Raises:
            UnknownTopicError, NoPermissionRouteError, NoNameServerError.
        """
        self._check_running()
        self._topics.add(topic)
        return await self.instance.routes.queues_to_read(topic)

    async def queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """Returns the queues of a topic that are allocated to this member, sorted.

        The first call announces to the brokers that this member consumes the topic. From then on
        the queues follow the members that come and go (`fetchMessageQueuesInBalance`).

        Raises:
            UsageError: the consumer does not register, so no other member knows of it.
        """
        self._check_running()
        if not self.settings.register:
            raise UsageError("a consumer with register=False has no share of its group's queues")
        if topic not in self._allocated.topics:
            self._topics.add(topic)
            await self._allocated.join(topic)
        return self._allocated.own(topic)

    async def listen_to_queues(self, topic: str, listener: MessageQueueListener | None) -> None:
        """Sets who is called when `queues_in_balance` changes (`registerMessageQueueListener`).

        Args:
            topic: whose queues.
            listener: see `queue_listeners.MessageQueueListener`; it is called with the present
                queues, too. None removes the listener.

        Raises:
            UsageError: as for `queues_in_balance`.
        """
        self._check_running()
        self._allocated.listen(topic, listener)
        await self.queues_in_balance(topic)

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
        max_bytes: int | None = None,
        hold_ms: int = 0,
    ) -> PullResult:
        """Pulls messages of one queue.

        Args:
            queue: where from.
            offset: the first one wanted.
            max_messages: how many at the most; a RocketMQ broker gives 32.
            expression: tags, such as ``"TagA || TagB"``, or a `MessageSelector`.
            max_bytes: how much at the most; RocketMQ's brokers do not look at it.
            hold_ms: how long to wait for a message when there is none (long polling).

        Raises:
            RouteError, NoNameServerError, ResponseError, ContentError, ConnectError,
            ConnectionClosedError, CallTimeoutError, TooMuchRequestError.
        """
        self._check_running()
        self._topics.add(queue.topic)
        result = await self._puller.pull(
            queue,
            offset,
            subscription_of(queue.topic, expression, self.instance.clock.now_ms()),
            max_messages=max_messages,
            max_bytes=max_bytes,
            hold_ms=hold_ms,
        )
        call_hooks_for_pulled(
            self._hooks, self.group, result.messages, self.instance.namespace.name
        )
        return result

    async def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
    ) -> PullResult:
        """Pulls messages, and waits for one if there is none, `pull_hold_ms` at the most.

        Raises:
            What `pull` raises.
        """
        hold_ms = self.settings.pull_hold_ms
        return await self.pull(queue, offset, max_messages, expression=expression, hold_ms=hold_ms)

    async def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Sends a message back that could not be handled: the group gets it again later.

        It comes through the topic ``%RETRY%<group>``, or after `max_reconsume_times` of that ends
        in ``%DLQ%<group>``. A broker that does not take it back is sent an ordinary message.

        Args:
            message: as a pull brought it.
            delay_level: when it comes again, of RocketMQ's ladder 1 to 18; 0 lets the broker
                choose, a negative one means the dead-letter topic at once.

        Raises:
            ResponseError, SendFailedError, RouteError, NoNameServerError: no broker took it.
        """
        self._check_running()
        await self._send_back.send(message, delay_level)

    # -- offsets ------------------------------------------------------------------------------

    async def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the oldest message that the queue still holds."""
        return await self._running_offsets.min(queue)

    async def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will get."""
        return await self._running_offsets.max(queue)

    async def search_offset(
        self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False
    ) -> int:
        """Returns the first offset stored at that time or later; with `upper` the last before.

        Args:
            queue: where to search.
            timestamp_ms: milliseconds since the epoch.
            upper: RocketMQ's boundary type UPPER.
        """
        return await self._running_offsets.at_time(queue, timestamp_ms, upper=upper)

    async def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """Returns when the oldest message was stored; -1 if there is none."""
        return await self._running_offsets.earliest_store_time(queue)

    async def committed_offset(self, queue: MessageQueue) -> int | None:
        """Returns the group's committed offset in a queue; None if there is none."""
        return await self._running_offsets.committed(self.group, queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commits the group's offset in a queue."""
        await self._running_offsets.commit(self.group, queue, offset)

    @property
    def _running_offsets(self) -> QueueOffsets:
        self._check_running()
        return self._offsets

    def _check_running(self) -> None:
        if not self._is_running:
            raise ClosedError(f"pull consumer of group {self.group}")
