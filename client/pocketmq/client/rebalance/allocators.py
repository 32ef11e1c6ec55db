"""Allocators: each works out which queues of a topic are allocated to this member of its group."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple, Protocol

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.log_fields import log_fields
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy
from pocketmq.protocol.bodies.clients import ConsumerIdList
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.clients import ConsumerListRequest
from pocketmq.protocol.requests.popping import ALL_QUEUES

log = logging.getLogger("pocketmq.client")


class Allocation(NamedTuple):
    """The queues of one topic that are allocated to this member.

    Attributes:
        queues: the allocated queues; None if they are not known now and the member keeps those
            that it has.
        is_settled: False if the queues should be allocated again soon.
        total: all known queues of the topic.
    """

    queues: tuple[MessageQueue, ...] | None
    is_settled: bool
    total: tuple[MessageQueue, ...] = ()


class Allocator(Protocol):
    """Allocates the queues of topics to this member."""

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """Returns all queues of a topic, sorted; None if they are not known now."""

    async def allocate(self, topic: str, queues: list[MessageQueue] | None) -> Allocation:
        """Returns which of a topic's queues are this member's now.

        Args:
            topic: its name.
            queues: what `queues_of` returned.
        """


class GroupAllocator:
    """Allocates queues among a group's members (`client/impl/consumer/RebalanceImpl`).

    Args:
        group: the consumer group.
        instance: the member's; it must be running.
        strategy: divides the queues of a topic among the members.
    """

    def __init__(self, group: str, instance: ClientInstance, strategy: AllocateStrategy) -> None:
        self._group, self._client_id, self._strategy = group, instance.client_id, strategy
        self._pool, self._routes, self._random = instance.pool, instance.routes, instance.random
        self._timeout_ms = instance.settings.call_timeout_ms

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """Returns all queues of a topic, sorted; None if they are not known now."""
        try:
            return sorted(await self._routes.subscribe(topic))
        except OperatingError as e:
            about = log_fields(self._group) | {"topic": topic}
            log.warning(
                "group %s: the route of %s is not known: %s", self._group, topic, e, extra=about
            )
            return None

    async def allocate(self, topic: str, queues: list[MessageQueue] | None) -> Allocation:
        """Asks a broker for the group's members, and applies the strategy.

        Raises:
            What the strategy raises.
        """
        if not queues:
            return Allocation(None if queues is None else (), False)
        try:
            members = await self._members(topic)
        except (OperatingError, PeerError) as e:
            about = log_fields(self._group)
            log.info("group %s: the members are not known: %s", self._group, e, extra=about)
            return Allocation(None, False)
        if self._client_id not in members:
            # The broker was restarted, or has not had a heartbeat yet.
            return Allocation(None, False)
        own = tuple(self._strategy(self._client_id, queues, members))
        return Allocation(own, True, tuple(queues))

    async def _members(self, topic: str) -> list[str]:
        addresses = self._routes.topic_addresses(topic)
        if not addresses:
            return []
        address = self._random.choice(addresses)
        request = ConsumerListRequest(consumer_group=self._group)
        answer = await self._pool.ask(address, request, self._timeout_ms)
        return sorted(ConsumerIdList.decode(answer.body).consumer_id_list)


class BroadcastAllocator(GroupAllocator):
    """Allocates every queue to every member, as broadcasting does; no broker is asked."""

    async def allocate(self, topic: str, queues: list[MessageQueue] | None) -> Allocation:
        """Returns all of the topic's queues."""
        known = tuple(queues or ())
        return Allocation(None if queues is None else known, bool(queues), known)


class PopAllocator:
    """Allocates what every member pops: all queues of each broker together.

    Args:
        pulled: allocates the queues of the one topic that is pulled.
        pulled_topic: the group's retry topic, where members that pull send messages back to.
    """

    def __init__(self, pulled: Allocator, pulled_topic: str) -> None:
        self._pulled, self._pulled_topic = pulled, pulled_topic

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """Returns all queues of a topic, sorted; None if they are not known now."""
        return await self._pulled.queues_of(topic)

    async def allocate(self, topic: str, queues: list[MessageQueue] | None) -> Allocation:
        """Returns one entry for each broker of the topic."""
        if topic == self._pulled_topic:
            return await self._pulled.allocate(topic, queues)
        names = sorted({queue.broker_name for queue in queues or ()})
        own = tuple(MessageQueue(topic, name, ALL_QUEUES) for name in names)
        return Allocation(None if queues is None else own, bool(own), own)


class AssignedQueues:
    """Allocates the queues that the application assigned to this member itself.

    Args:
        otherwise: allocates queues until the application assigns some.
        assigned: returns the assigned queues; None if the application has assigned none.
    """

    def __init__(
        self, otherwise: Allocator, assigned: Callable[[], tuple[MessageQueue, ...] | None]
    ) -> None:
        self._otherwise, self._assigned = otherwise, assigned

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """Returns all queues of a topic, sorted; None if they are not known now."""
        return await self._otherwise.queues_of(topic)

    async def allocate(self, topic: str, queues: list[MessageQueue] | None) -> Allocation:
        """Returns the assigned queues of the topic, whether they exist or not."""
        assigned = self._assigned()
        if assigned is None:
            return await self._otherwise.allocate(topic, queues)
        own = tuple(queue for queue in assigned if queue.topic == topic)
        return Allocation(own, True, tuple(queues or ()))
