"""The parts from which push and lite pull consumers are put together once they join a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.heartbeat import ConsumerMember
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.offsets.offset_store import OffsetStore
from pocketmq.client.queues.pulling import Puller
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy
from pocketmq.client.rebalance.allocators import Allocator, BroadcastAllocator, GroupAllocator
from pocketmq.client.settings import MemberSettings
from pocketmq.client.tracing.trace_dispatcher import CONSUME, TraceDispatcher
from pocketmq.client.tracing.tracing import ConsumerTrace
from pocketmq.protocol.bodies.clients import BROADCASTING, Subscription


class MemberParts(NamedTuple):
    """What a consumer works with as a member of its group; made when it joins.

    Attributes:
        member: the consumer, as its instance and brokers see it.
        subscriptions: by topic; the consumer changes them at any time.
        settings: limits, pauses and periods.
        instance: the connections, routes and heartbeats; it is running.
        offsets: where the group stands.
        allocator: allocates queues to the member.
        puller: asks the brokers for messages.
        hooks: the application's and, where messages are traced, those that trace.
        trace: writes the traces; None without.
    """

    member: ConsumerMember
    subscriptions: Mapping[str, Subscription]
    settings: MemberSettings
    instance: ClientInstance
    offsets: OffsetStore
    allocator: Allocator
    puller: Puller
    hooks: ConsumeHooks
    trace: TraceDispatcher | None

    @classmethod
    def of(
        cls,
        member: ConsumerMember,
        subscriptions: Mapping[str, Subscription],
        settings: MemberSettings,
        instance: ClientInstance,
        offsets: OffsetStore,
        strategy: AllocateStrategy,
        hooks: ConsumeHooks,
        *,
        is_lite: bool,
    ) -> MemberParts:
        """Makes the parts of a member.

        Args:
            member, subscriptions, settings, instance, offsets: see the attributes.
            strategy: divides queues among the group's members.
            hooks: the application's.
            is_lite: the member is a lite pull consumer.
        """
        group = member.group
        allocator = BroadcastAllocator if settings.message_model == BROADCASTING else GroupAllocator
        trace = None
        if settings.enable_trace:
            trace = TraceDispatcher(instance, group, CONSUME, settings.trace_topic)
        return cls(
            member,
            subscriptions,
            settings,
            instance,
            offsets,
            allocator(group, instance, strategy),
            Puller(group, instance, settings.pull_timeout_ms, hooks, is_lite=is_lite),
            hooks if trace is None else hooks + ConsumerTrace(trace, instance.clock).hooks,
            trace,
        )
