"""Which queues of a topic belong to this member of the group."""

from __future__ import annotations

import logging
from random import Random
from typing import NamedTuple, Protocol

from typing_extensions import Self

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.routes import RouteCache
from pocketmq.client.log_fields import log_fields
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy
from pocketmq.protocol.bodies.clients import ConsumerIdList
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.clients import ConsumerListRequest
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.client")


class Share(NamedTuple):
    """The queues of one topic that this member has.

    Attributes:
        queues: which; None when that cannot be told now and the present ones are kept.
        is_settled: False when it should be asked again soon.
        total: all queues of the topic that are known.
    """

    queues: tuple[MessageQueue, ...] | None
    is_settled: bool
    total: tuple[MessageQueue, ...] = ()


class Sharing(Protocol):
    """Works out the member's share of each topic."""

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """All queues of a topic, sorted; None when they cannot be told now."""

    async def share_of(self, topic: str, queues: list[MessageQueue] | None) -> Share:
        """Those of a topic's queues that are this member's now."""


class Assignment:
    """Works out the member's share of each topic (`client/impl/consumer/RebalanceImpl`).

    Args:
        group: the consumer group.
        client_id: of this member.
        strategy: how queues are shared.
        pool, routes: the brokers and where they are.
        random: chooses the broker that is asked for the members.
        timeout_ms: of that question.
    """

    def __init__(
        self,
        group: str,
        client_id: str,
        strategy: AllocateStrategy,
        pool: ConnectionPool,
        routes: RouteCache,
        random: Random,
        timeout_ms: float,
    ) -> None:
        self._group, self._client_id, self._strategy = group, client_id, strategy
        self._pool, self._routes, self._random = pool, routes, random
        self._timeout_ms = timeout_ms

    @classmethod
    def of_member(cls, group: str, instance: ClientInstance, strategy: AllocateStrategy) -> Self:
        """For a member on an instance, which must be running."""
        return cls(
            group,
            instance.client_id,
            strategy,
            instance.pool,
            instance.routes,
            instance.random,
            instance.settings.call_timeout_ms,
        )

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """All queues of a topic, sorted; None when they cannot be told now."""
        try:
            return sorted(await self._routes.subscribe(topic))
        except OperatingError as e:
            about = log_fields(self._group) | {"topic": topic}
            log.warning(
                "group %s: the route of %s is not known: %s", self._group, topic, e, extra=about
            )
            return None

    async def share_of(self, topic: str, queues: list[MessageQueue] | None) -> Share:
        """Those of a topic's queues that are this member's now.

        Raises:
            What the strategy raises.
        """
        if not queues:
            return Share(None if queues is None else (), False)
        try:
            members = await self._members(topic)
        except (OperatingError, PeerError) as e:
            about = log_fields(self._group)
            log.info("group %s: the members are not known: %s", self._group, e, extra=about)
            return Share(None, False)
        if self._client_id not in members:
            # The broker was restarted, or has not had a heartbeat yet.
            return Share(None, False)
        own = tuple(self._strategy(self._client_id, queues, members))
        return Share(own, True, tuple(queues))

    async def _members(self, topic: str) -> list[str]:
        addresses = self._routes.topic_addresses(topic)
        if not addresses:
            return []
        address = self._random.choice(addresses)
        request = ConsumerListRequest(consumer_group=self._group)
        answer = await self._pool.ask(address, request, self._timeout_ms)
        return sorted(ConsumerIdList.decode(answer.body).consumer_id_list)


class WholeTopics(Assignment):
    """With broadcasting every member has all queues, and nobody is asked."""

    async def share_of(self, topic: str, queues: list[MessageQueue] | None) -> Share:
        """All of the topic's queues."""
        return Share(None if queues is None else tuple(queues), bool(queues), tuple(queues or ()))


class GivenQueues:
    """The application says itself which queues are this member's; until then they are shared.

    Args:
        otherwise: how they are shared.

    Attributes:
        queues: those that it named last; None if it has not.
    """

    def __init__(self, otherwise: Assignment) -> None:
        self._otherwise = otherwise
        self.queues: tuple[MessageQueue, ...] | None = None

    async def queues_of(self, topic: str) -> list[MessageQueue] | None:
        """All queues of a topic, sorted; None when they cannot be told now."""
        return await self._otherwise.queues_of(topic)

    async def share_of(self, topic: str, queues: list[MessageQueue] | None) -> Share:
        """Those of the topic's queues that were named, whether they exist or not."""
        if self.queues is None:
            return await self._otherwise.share_of(topic, queues)
        own = tuple(queue for queue in self.queues if queue.topic == topic)
        return Share(own, True, tuple(queues or ()))
