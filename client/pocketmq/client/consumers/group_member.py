"""What push and lite pull consumers have in common: subscriptions, joining a group, leaving it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from typing_extensions import Self

from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease
from pocketmq.client.lifecycle import Lifecycle
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.tracing.trace_dispatcher import CONSUME, TraceDispatcher
from pocketmq.client.tracing.tracing import ConsumerTrace
from pocketmq.protocol.bodies.clients import ConsumerData, Subscription
from pocketmq.protocol.names.names import check_group, check_topic

QueuesT = TypeVar("QueuesT", bound=MemberQueues)


class GroupMember(ABC, Generic[QueuesT]):
    """A consumer that shares topics with the other members of its group.

    Args:
        group: the consumer group.
        use: the instance that the consumer has or shares.
        hooks: functions to call for the messages.

    Raises:
        IllegalNameError: the group's name is illegal.
    """

    def __init__(self, group: str, use: InstanceLease, hooks: ConsumeHooks | None) -> None:
        check_group(group)
        self.group = group
        self.is_waiting = True
        self._lease = use
        self._hooks = hooks or ConsumeHooks()
        self._trace: TraceDispatcher | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._queues: QueuesT | None = None
        self._lifecycle = Lifecycle()
        self._is_running = False

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    @property
    def instance(self) -> ClientInstance:
        """What the consumer shares with others."""
        return self._lease.instance

    # -- subscriptions ------------------------------------------------------------------------

    def _subscribe(self, topic: str, expression: Expression) -> None:
        check_topic(topic)
        version_ms = self.instance.next_version_ms()
        self._subscriptions[topic] = subscription_of(topic, expression, version_ms)
        self.is_waiting = False
        self._subscription_changed(topic)

    def _subscription_changed(self, topic: str) -> None:
        if self._queues is not None:
            self._queues.subscription_changed(topic)

    async def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does.

        After a later `subscribe` the consumer does so by itself too, and logs an error.

        Raises:
            ResponseError: a broker cannot: SQL92 is switched off there (1), for example.
            NoNameServerError: the brokers cannot be asked for.
        """
        if self._queues is not None:
            await self._queues.check()

    # -- as its instance sees it --------------------------------------------------------------

    @abstractmethod
    def describe(self) -> ConsumerData:
        """What heartbeats say of this consumer."""

    def group_changed(self) -> None:
        """Members came or went: share the queues out anew."""
        if self._queues is not None:
            self._queues.group_changed()

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins the group and begins to pull. Idempotent.

        Raises:
            NoNameServerError: none of the name servers can be asked.
            UsageError: the shared instance has a consumer of this group already.
            ResponseError: a broker cannot serve one of the subscriptions.
            OffsetFileError: with broadcasting, the file of the offsets cannot be read.
        """
        await self._lifecycle.start(self._start)

    async def _start(self) -> None:
        if self._is_running:
            return
        await self._lease.acquire()
        try:
            await self._join()
        except BaseException:
            await self._close()
            raise

    @abstractmethod
    async def _join(self) -> None:
        """Joins the group, and sets `_is_running` as soon as there is something to end."""

    async def close(self) -> None:
        """Stores the offsets, and leaves the group. Idempotent."""
        await self._lifecycle.close(self._close)

    async def _close(self) -> None:
        if self._is_running:
            self._is_running = False
            await self._leave()
        await self._lease.release()

    @abstractmethod
    async def _leave(self) -> None:
        """Ends what `_join` began; `_leave_group` is its last step."""

    async def _leave_group(self) -> None:
        instance = self.instance
        instance.groups.remove_consumer(self.group)
        await instance.heartbeats.unregister(consumer_group=self.group)
        for topic in self._subscriptions:
            instance.routes.unsubscribe(topic)

    def _traced_hooks(self, topic: str | None) -> ConsumeHooks:
        """The application's hooks and, where messages are traced, those that do so.

        Args:
            topic: where the traces go; None: messages are not traced.
        """
        if topic is None:
            return self._hooks
        self._trace = TraceDispatcher(self.instance, self.group, CONSUME, topic)
        return self._hooks + ConsumerTrace(self._trace, self.instance.clock).hooks
