"""The push consumer, which gives messages to a listener or an iteration."""

from __future__ import annotations

import logging
from random import Random
from typing import Any

from pocketmq.client.consumers.group_member import GroupMember
from pocketmq.client.consumers.pop_membership import PopMembership
from pocketmq.client.consumers.push_membership import PushMembership
from pocketmq.client.errors import ClosedError
from pocketmq.client.hooks import COMMON, ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.listening.stream import MessageStream
from pocketmq.client.message_selector import Expression
from pocketmq.client.popping.popper import init_mode_of
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
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


class PushConsumer(GroupMember[PushMembership]):
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

    With ``mode="pop"`` (RocketMQ 5) no member has queues of its own: each pops messages from all
    of them, and acknowledges them one by one. A slow or stuck member holds up nobody, and a group
    may have more members than there are queues. A message that was not handled becomes visible
    again after the same delays.

    Args:
        group: the consumer group, which divides the queues among its members.
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        listener: gets a list of messages; see `dispatch.Listener`. Without one the consumer is
            iterated over.
        allocate: how queues are divided; all members must use the same.
        hooks: functions to call for the messages.
        instance: a shared instance instead of one of the consumer's own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `PushSettings` and, without `instance`, `InstanceSettings`.

    Raises:
        IllegalNameError, ConfigError.
    """

    settings: PushSettings

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
        mine, rest = take_settings(PushSettings, settings, InstanceSettings)
        _check_settings(mine, listener)
        lease = InstanceLease(instance, namesrv, clock, random, rest)
        hooks = (hooks or ConsumeHooks()) + COMMON.handling
        super().__init__(group, lease, mine, allocate, hooks)
        self._listener = listener
        self._concurrency = self.settings.concurrency
        self._stream: MessageStream | None = None
        if mine.message_model != BROADCASTING:
            topic, now_ms = retry_topic(group), self.instance.clock.now_ms()
            self._subscriptions[topic] = Subscription.of_tags(topic, SUBSCRIBE_ALL, now_ms)
        self._is_paused = False

    # -- subscriptions ------------------------------------------------------------------------

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Subscribes to a topic, before or after the start.

        Args:
            topic: its name; it need not exist yet.
            expression: tags, such as ``"TagA || TagB"``, or a `MessageSelector`. What brokers
                say of SQL92 comes from `start`, or from `check_subscriptions` after it.

        Raises:
            IllegalNameError: the name is illegal.
        """
        self._subscribe(topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        if self._subscriptions.pop(topic, None) is not None:
            self._subscription_changed(topic)

    # -- as its instance sees it --------------------------------------------------------------

    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat."""
        return ConsumerData(
            group_name=self.group,
            message_model=self.settings.message_model,
            consume_from_where=self.settings.consume_from_where,
            subscription_data_set=[s for _, s in sorted(self._subscriptions.items())],
        )

    # -- life ---------------------------------------------------------------------------------

    async def _join(self) -> None:
        parts = await self._new_parts(is_lite=False)
        listener = self._listener
        if listener is None:
            listener = self._stream = MessageStream()
        joining = PopMembership if self.settings.mode == "pop" else PushMembership
        membership = joining(parts, self.settings, listener, self._concurrency)
        self._membership = membership
        if self._is_paused:
            membership.pause()
        await membership.start()

    async def _end(self, membership: PushMembership) -> None:
        await membership.stop()
        if self._stream is not None:
            self._stream.close()
        await membership.close()

    # -- while it runs ------------------------------------------------------------------------

    @property
    def is_paused(self) -> bool:
        """Whether the consumer is paused."""
        return self._is_paused

    def pause(self) -> None:
        """Pulls and hands out nothing until `resume`; the queues stay this member's. Idempotent.

        What is at work goes on. A pull that is under way may still bring messages; they wait.
        """
        self._is_paused = True
        if self._membership is not None:
            self._membership.pause()

    def resume(self) -> None:
        """Pulls and hands out messages again. Idempotent."""
        self._is_paused = False
        if self._membership is not None:
            self._membership.resume()

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
        if self._membership is not None:
            self._membership.resize(concurrency)

    async def __anext__(self) -> ReceivedMessage:
        return await self._iterated().next()

    def ack(self, message: ReceivedMessage) -> None:
        """Acknowledges a message of the iteration as handled.

        Raises:
            UsageError: it is not held any more.
        """
        self._iterated().settle(message, ConsumeResult.SUCCESS)

    def retry(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Sends a message of the iteration back, to come again later.

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
        return [] if self._membership is None else self._membership.queues.own


def _check_concurrency(concurrency: int) -> None:
    if not 1 <= concurrency <= CONCURRENCY_MAX:
        raise ConfigError(f"concurrency={concurrency} is not within 1 and {CONCURRENCY_MAX}")


def _check_settings(settings: PushSettings, listener: Listener | None) -> None:
    """Checks that the settings go together.

    Raises:
        ConfigError: they do not.
    """
    is_iterated = listener is None
    if not is_iterated and not callable(listener):
        raise ConfigError(f"listener={listener!r} is no function: pass one that takes a list")
    if settings.mode not in ("pull", "pop"):
        raise ConfigError(f"mode={settings.mode!r} is none of 'pull', 'pop'")
    if settings.mode == "pop":
        if settings.orderly or settings.message_model == BROADCASTING:
            raise ConfigError(
                "mode='pop' gives each message to any one member: orderly and broadcasting "
                "consumers have queues of their own, leave the mode out"
            )
        init_mode_of(settings.consume_from_where)
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
