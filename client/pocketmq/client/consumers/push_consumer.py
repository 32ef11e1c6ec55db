"""The push consumer: messages come to a listener, queues are shared among the group's members."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from random import Random
from typing import Any

from typing_extensions import Self

from pocketmq.client.consumers.group_member import GroupMember
from pocketmq.client.consumers.inspection import PushInspection
from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.errors import ClosedError
from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.listening.dispatch import Dispatcher, Listener
from pocketmq.client.listening.hooked_listener import hooks_around
from pocketmq.client.listening.orderly import OrderlyDispatcher
from pocketmq.client.listening.send_back import SendBack
from pocketmq.client.listening.stream import MessageStream
from pocketmq.client.log_fields import log_fields
from pocketmq.client.message_selector import Expression
from pocketmq.client.offsets.member_offsets import consume_from_where_of, open_offsets
from pocketmq.client.queues.order_locks import BroadcastLocks, Locks, NoLocks, OrderLocks
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.pulling import Puller
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.client.rebalance.allocators import BroadcastAllocator, GroupAllocator
from pocketmq.client.results import ConsumeResult, RetryLater
from pocketmq.client.settings import CONCURRENCY_MAX, InstanceSettings, PushSettings, take_settings
from pocketmq.protocol.bodies.clients import (
    BROADCASTING,
    SUBSCRIBE_ALL,
    ConsumerData,
    Subscription,
)
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names.names import retry_topic
from pocketmq.runtime.clock import Clock

log = logging.getLogger("pocketmq.client")


class PushConsumer(GroupMember[MemberQueues]):
    """Gives messages to a listener (`client/consumer/DefaultMQPushConsumer`)::

        async def handle(messages):
            for message in messages: ...

        async with PushConsumer("billing", "127.0.0.1:9876", listener=handle) as consumer:
            consumer.subscribe("Orders", "new || changed")

    Without a listener it is iterated over, and each message must be acknowledged or sent back::

        async with PushConsumer("billing", "127.0.0.1:9876") as consumer:
            consumer.subscribe("Orders")
            async for message in consumer:
                consumer.ack(message)  # or consumer.retry(message, delay_level=5)

    `concurrency` messages at the most are then held unacknowledged, fetched or not, and each for
    `consume_timeout_ms` at the most.

    Each message is handed out at least once. Messages of a queue are handed out in the order of
    their offsets, `concurrency` batches at a time; ``concurrency=1`` (or ``queue_concurrency=1``
    for each queue) handles them strictly one after the other.

    With ``orderly=True`` the messages of a queue are handled one batch after the other by one
    member at a time, whatever happens to members and brokers: a queue is locked in its broker, and
    whoever loses it lets the batch end that is at work before the next owner begins. A batch that
    fails is repeated after `suspend_current_queue_time_ms`, before anything else of its queue, for
    ever or `max_reconsume_times` times; then its messages go to ``%DLQ%<group>``. Listeners may
    also return an `OrderlyResult` or `SuspendQueue`; of a `RetryLater`, `ack_index` counts, and a
    negative delay level.

    Otherwise, messages that the listener does not handle (it raises, or returns
    `ConsumeResult.RETRY` or a `RetryLater`) go back to the broker and come again after 10 s, 30 s,
    1 min and so on, to any member; after `max_reconsume_times` of that they are put into the topic
    ``%DLQ%<group>``. They carry the topic they were first sent to, and `reconsume_times`. While no
    broker takes them they are handed out again by this member, and their offset is not passed.

    Args:
        group: the consumer group, whose members share the queues.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        listener: gets a list of messages; see `dispatch.Listener`. Without one the consumer is
            iterated over.
        allocate: how queues are shared; all members must use the same.
        hooks: functions to call for the messages.
        instance: a shared instance instead of one of the consumer's own.
        clock: the source of time.
        random: the source of chance.
        settings: fields of `PushSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: Listener | None = None,
        allocate: AllocateStrategy = allocate_averagely,
        hooks: ConsumeHooks | None = None,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self.settings, rest = take_settings(PushSettings, settings, InstanceSettings)
        _check_settings(self.settings, listener)
        super().__init__(group, InstanceLease(instance, namesrv, clock, random, rest), hooks)
        self._is_broadcasting = self.settings.message_model == BROADCASTING
        now_ms = self.instance.clock.now_ms()
        self._from_where = consume_from_where_of(self.settings, now_ms)
        self._listener, self._allocate = listener, allocate
        self._concurrency = self.settings.concurrency
        self._stream: MessageStream | None = None
        if not self._is_broadcasting:
            topic = retry_topic(group)
            self._subscriptions[topic] = Subscription.of_tags(topic, SUBSCRIBE_ALL, now_ms)
        self._is_paused = False

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    # -- subscriptions ------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Asks for a topic's messages, before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: tags, such as ``"TagA || TagB"``, or a `MessageSelector`. What brokers
                say of SQL92 comes from `start`, or from `check_subscriptions` after it.

        Raises:
            IllegalNameError: the name is illegal.
        """
        self._subscribe(topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Takes no more messages of a topic."""
        if self._subscriptions.pop(topic, None) is not None:
            self._subscription_changed(topic)

    # -- as its instance sees it --------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """What heartbeats say of this consumer."""
        return ConsumerData(
            group_name=self.group,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=[s for _, s in sorted(self._subscriptions.items())],
        )

    # -- life ---------------------------------------------------------------------------------

    async def _join(self) -> None:
        instance, settings = self.instance, self.settings
        offsets = await open_offsets(self.group, instance, settings, self._from_where)
        instance.groups.add_consumer(self)
        self._is_running = True
        assignment = (BroadcastAllocator if self._is_broadcasting else GroupAllocator)(
            self.group, instance, self._allocate
        )
        self._send_back = SendBack(self.group, instance, settings.max_reconsume_times)
        listener = self._listener
        if listener is None:
            listener = self._stream = MessageStream()
        self._dispatcher = self._new_dispatcher(listener)
        self._surround_listener()
        self._queues = MemberQueues(
            self.group,
            self._subscriptions,
            settings,
            instance,
            offsets,
            assignment,
            self._new_locks(),
            Puller(
                instance.pool,
                instance.routes,
                self.group,
                settings.pull_timeout_ms,
                instance.namespace,
                self._hooks,
            ),
            self._dispatcher.offer,
        )
        instance.groups.inspections[self.group] = PushInspection(
            self, settings, self._queues, self._dispatcher, instance.clock
        )
        if self._is_paused:
            self.pause()
        self._dispatcher.start()
        await self._queues.start()

    def _new_dispatcher(self, listener: Listener) -> Dispatcher:
        settings, clock = self.settings, self.instance.clock
        if settings.orderly:
            return OrderlyDispatcher(
                listener,
                clock,
                concurrency=self._concurrency,
                batch_max=settings.consume_message_batch_max_size,
                suspend_ms=settings.suspend_current_queue_time_ms,
                times_max=settings.max_reconsume_times,
                auto_commit=settings.auto_commit,
                on_finished=self._finished,
                give_up=self._drop if self._is_broadcasting else self._send_back.give_up,
            )
        return Dispatcher(
            listener,
            clock,
            concurrency=self._concurrency,
            batch_max=settings.consume_message_batch_max_size,
            retry_delay_ms=settings.retry_delay_ms,
            on_finished=self._finished,
            on_failure=self._drop if self._is_broadcasting else self._failed,
            consume_timeout_ms=0 if self._is_broadcasting else settings.consume_timeout_ms,
        )

    def _surround_listener(self) -> None:
        instance, settings = self.instance, self.settings
        hooks = self._traced_hooks(settings.trace_topic if settings.enable_trace else None)
        timeout_ms = 0 if settings.orderly else settings.consume_timeout_ms
        if hooks.before or hooks.after:
            self._dispatcher.surround(
                hooks_around(hooks, self.group, instance.namespace.name, instance.clock, timeout_ms)
            )

    def _new_locks(self) -> Locks:
        if not self.settings.orderly:
            return NoLocks(self._queue_concurrency)
        instance = self.instance
        return (BroadcastLocks if self._is_broadcasting else OrderLocks)(
            self.group,
            instance.client_id,
            instance.pool,
            instance.routes,
            instance.clock,
            instance.namespace,
        )

    async def close(self) -> None:
        """Finishes what is at work, stores the offsets, leaves the group. Idempotent."""
        await super().close()

    async def _leave(self) -> None:
        instance = self.instance
        if self._queues is not None:
            await self._queues.stop()
        self._dispatcher.stop()
        if self._stream is not None:
            self._stream.close()
        timeout_s = self.settings.close_timeout_ms / 1000
        in_threads = await self._dispatcher.close(timeout_s, instance.clock)
        if self._trace is not None:
            await self._trace.close()
        if self._queues is not None:
            await self._queues.close(in_threads)
            self._queues = None
        await self._leave_group()

    # -- while it runs ------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether it was paused."""
        return self._is_paused

    def pause(self) -> None:
        """Takes and hands out nothing until `resume`; the queues stay this member's. Idempotent.

        What is at work goes on. A pull that is under way may still bring messages; they wait.
        """
        self._is_paused = True
        if self._queues is not None:
            self._queues.pause()
            self._dispatcher.pause()

    def resume(self) -> None:
        """Goes on after `pause`. Idempotent."""
        self._is_paused = False
        if self._queues is not None:
            self._queues.resume()
            self._dispatcher.resume()

    @property
    def concurrency(self) -> int:
        """How many batches are handled at the same time; may be changed at any time.

        (consumeThreadMin, consumeThreadMax and `updateCorePoolSize`: a coroutine costs nothing
        while it does not run, so one number serves for all three.)
        """
        return self._concurrency

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        _check_concurrency(concurrency)
        self._concurrency = concurrency
        if self._queues is not None:
            self._dispatcher.resize(concurrency)
            if not self.settings.orderly:
                self._queues.limit_batches(self._queue_concurrency)

    @property
    def _queue_concurrency(self) -> int:
        # With one handler in all, a failed batch that waits must hold up its queue too.
        return 1 if self._concurrency == 1 else self.settings.queue_concurrency

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return await self._iterated().next()

    def ack(self, message: ReceivedMessage) -> None:
        """A message that the iteration gave was handled.

        Raises:
            UsageError: it is not held any more.
        """
        self._iterated().settle(message, ConsumeResult.SUCCESS)

    def retry(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """A message that the iteration gave is to come again later.

        Args:
            message: the message.
            delay_level: when; see `RetryLater`.

        Raises:
            UsageError: it is not held any more.
        """
        self._iterated().settle(message, RetryLater(delay_level))

    def _iterated(self) -> MessageStream:
        if self._listener is not None:
            raise UsageError("this consumer has a listener, which gets its messages")
        if self._stream is None:
            raise ClosedError(f"push consumer of group {self.group}")
        return self._stream

    # -- queues -------------------------------------------------------------------------------

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that are this member's now, sorted."""
        return [] if self._queues is None else self._queues.own

    def _finished(self, messages: ProcessQueue) -> None:
        if self._queues is not None:
            self._queues.finished(messages)

    async def _failed(
        self, messages: Sequence[ReceivedMessage], delay_level: int
    ) -> Sequence[ReceivedMessage]:
        left = await self._send_back.failed(messages, delay_level)
        if len(left) < len(messages) and self._queues is not None:
            self._queues.sent_back()
        return left

    async def _drop(
        self, messages: Sequence[ReceivedMessage], delay_level: int
    ) -> Sequence[ReceivedMessage]:
        for message in messages:
            log.warning(
                "group %s: message %s is dropped: with broadcasting nothing comes again",
                self.group,
                message.msg_id,
                extra=log_fields(self.group, message=message),
            )
        return ()


def _check_concurrency(concurrency: int) -> None:
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise ConfigError(f"concurrency={concurrency} is not within 1 and {CONCURRENCY_MAX}")


def _check_settings(settings: PushSettings, listener: Listener | None) -> None:
    """Makes sure that the settings go together.

    Raises:
        ConfigError: they do not.
    """
    is_iterated = listener is None
    if not is_iterated and not callable(listener):
        raise ConfigError(f"listener={listener!r} is no function: pass one that takes a list")
    for name in ("pull_threshold_for_topic", "pull_threshold_size_for_topic"):
        if getattr(settings, name) != -1 and getattr(settings, name) < 1:
            raise ConfigError(f"{name} must be at least 1, or -1 for no limit")
    if not settings.auto_commit and (is_iterated or not settings.orderly):
        raise ConfigError(
            "auto_commit=False is for orderly listeners, which answer OrderlyResult.COMMIT"
        )
    if is_iterated and settings.consume_message_batch_max_size != 1:
        raise ConfigError(
            "consume_message_batch_max_size is for listeners: without one, messages come singly"
        )
