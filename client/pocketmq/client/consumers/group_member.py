"""The base of push and lite pull consumers: subscribing, joining a group, leaving it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Protocol, Self, TypeVar

from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance, InstanceLease
from pocketmq.client.lifecycle import Lifecycle, Startable
from pocketmq.client.message_selector import Expression, subscription_of
from pocketmq.client.offsets.member_offsets import consume_from_where_of, open_offsets
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy
from pocketmq.client.settings import MemberSettings
from pocketmq.protocol.bodies.clients import ConsumerData, Subscription
from pocketmq.protocol.errors import NoPermissionError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import check_group, check_topic


class ConsumerMembership(Protocol):
    """A consumer's membership of its group, from joining to leaving."""

    @property
    def queues(self) -> MemberQueues:
        """The member's queues."""


MembershipT = TypeVar("MembershipT", bound=ConsumerMembership)


class GroupMember(Startable, Generic[MembershipT]):
    """A consumer whose group divides the queues of topics among its members.

    Args:
        group: the consumer group.
        lease: the instance that the consumer has or shares.
        settings: of the consumer.
        allocate: divides queues among the members.
        hooks: functions to call for the messages.

    Raises:
        IllegalNameError: the group's name is illegal.
        ConfigError: `consume_from_where` or `message_model` is no such word.
    """

    settings: MemberSettings

    def __init__(
        self,
        group: str,
        lease: InstanceLease,
        settings: MemberSettings,
        allocate: AllocateStrategy,
        hooks: ConsumeHooks | None,
    ) -> None:
        check_group(group)
        self.group = group
        self.is_waiting = True
        self.settings = settings
        self._lease = lease
        self._allocate = allocate
        self._hooks = hooks or ConsumeHooks()
        self._from_where = consume_from_where_of(settings, self.instance.clock.now_ms())
        self._subscriptions: dict[str, Subscription] = {}
        self._membership: MembershipT | None = None
        self._lifecycle = Lifecycle()
        self._is_running = False

    def __aiter__(self) -> Self:
        return self

    @abstractmethod
    async def __anext__(self) -> ReceivedMessage: ...

    @property
    def instance(self) -> ClientInstance:
        """The instance that the consumer owns or shares."""
        return self._lease.instance

    # -- subscriptions ------------------------------------------------------------------------

    def _subscribe(self, topic: str, expression: Expression) -> None:
        check_topic(topic)
        version_ms = self.instance.next_version_ms()
        self._subscriptions[topic] = subscription_of(topic, expression, version_ms)
        self.is_waiting = False
        self._subscription_changed(topic)

    def _subscription_changed(self, topic: str) -> None:
        if self._membership is not None:
            self._membership.queues.subscription_changed(topic)

    async def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does.

        After a later `subscribe` the consumer does so by itself too, and logs an error.

        Raises:
            ResponseError: a broker cannot: SQL92 is switched off there (1), for example.
            NoNameServerError: the brokers cannot be asked for.
        """
        if self._membership is not None:
            await self._membership.queues.check()

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why brokers do not let the user consume (16); None while they do.

        Each reason is logged once, and the consumer goes on when the user may.
        """
        return None if self._membership is None else self._membership.queues.refusal

    def cached_messages(self) -> dict[str, tuple[int, int]]:
        """Returns how many messages the consumer holds that are not handled, and their bytes.

        Returns:
            (messages, bytes) by topic; those of retries by ``%RETRY%<group>``.
        """
        found: dict[str, tuple[int, int]] = {}
        loops = () if self._membership is None else list(self._membership.queues.loops.values())
        for loop in loops:
            messages = loop.messages
            count, size = found.get(messages.queue.topic, (0, 0))
            found[messages.queue.topic] = (count + messages.count, size + messages.size)
        return found

    # -- as its instance sees it --------------------------------------------------------------

    @abstractmethod
    def describe(self) -> ConsumerData:
        """Returns the consumer's part of a heartbeat."""

    def group_changed(self) -> None:
        """Allocates the queues anew, because members came or went."""
        if self._membership is not None:
            self._membership.queues.group_changed()

    # -- life ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Joins the group and begins to pull. Idempotent.

        Raises:
            NoNameServerError: none of the name servers can be asked.
            UsageError: the shared instance has a consumer of this group already.
            ResponseError: a broker cannot serve one of the subscriptions.
            NoPermissionError: brokers do not let the user consume.
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
        """Makes the membership of `_new_parts`, and starts it."""

    async def _new_parts(self, *, is_lite: bool) -> MemberParts:
        """Adds the consumer to its instance and makes its parts; from now on it must be closed."""
        instance = self.instance
        offsets = await open_offsets(self.group, instance, self.settings, self._from_where)
        instance.groups.add_consumer(self)
        self._is_running = True
        return MemberParts.of(
            self,
            self._subscriptions,
            self.settings,
            instance,
            offsets,
            self._allocate,
            self._hooks,
            is_lite=is_lite,
        )

    async def close(self) -> None:
        """Finishes what is at work, stores the offsets, and leaves the group. Idempotent."""
        await self._lifecycle.close(self._close)

    async def _close(self) -> None:
        if self._is_running:
            self._is_running = False
            if self._membership is not None:
                await self._end(self._membership)
                self._membership = None
            await self._leave_group()
        await self._lease.release()

    @abstractmethod
    async def _end(self, membership: MembershipT) -> None:
        """Closes the membership."""

    async def _leave_group(self) -> None:
        instance = self.instance
        instance.groups.remove_consumer(self.group)
        await instance.heartbeats.unregister(consumer_group=self.group)
        for topic in self._subscriptions:
            instance.routes.unsubscribe(topic)
