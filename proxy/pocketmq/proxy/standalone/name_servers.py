"""What a proxy asks name servers: where topics and brokers are."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.requests.nameserver import ClusterInfoRequest, RouteRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.transport.pool import ConnectionPool

log = logging.getLogger("pocketmq.proxy")

ROUTE_AGE_MAX_S = 10.0
"""A route is asked for again when it is older."""

MISSING_AGE_MAX_S = 1.0
"""So long a topic stays unknown that was asked for before it was made."""

CLUSTER_AGE_MAX_S = 1.0
"""Brokers that no route has named are looked for no more often."""

ROUTES_MAX = 10_000
"""Routes that are remembered; beyond them all are forgotten."""

TIMEOUT_MS = 3_000

MASTER_ID = 0


class _Known(NamedTuple):
    route: TopicRoute | None
    asked_s: float


class NameServers:
    """Asks name servers, the first that answers, and remembers for a while.

    Args:
        addresses: of the name servers.
        pool: to reach them.
        clock: for ages.

    Attributes:
        masters: the addresses of the brokers that were told of, by name.
    """

    def __init__(self, addresses: Sequence[str], pool: ConnectionPool, clock: Clock) -> None:
        self._addresses, self._pool, self._clock = tuple(addresses), pool, clock.machine
        self._known: dict[str, _Known] = {}
        self._cluster_asked_s = float("-inf")
        self.masters: dict[str, str] = {}

    async def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic's queues are; None if no broker has it.

        Raises:
            OperatingError: no name server answers, and it is not known from before.
        """
        known, now_s = self._known.get(topic), self._clock.monotonic()
        if known is not None:
            age_max_s = MISSING_AGE_MAX_S if known.route is None else ROUTE_AGE_MAX_S
            if now_s - known.asked_s < age_max_s:
                return known.route
        try:
            answer = await self._ask(RouteRequest(topic=topic, accept_standard_json_only=True))
            route: TopicRoute | None = TopicRoute.decode(answer.body)
        except ResponseError as e:
            if e.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            route = None
        except OperatingError:
            if known is None:
                raise
            log.warning("no name server answers: the route of %s stays as it was", topic)
            route = known.route
        if len(self._known) >= ROUTES_MAX:
            self._known.clear()
        self._known[topic] = _Known(route, now_s)
        for broker in () if route is None else route.broker_datas:
            if MASTER_ID in broker.broker_addrs:
                self.masters[broker.broker_name] = broker.broker_addrs[MASTER_ID]
        return route

    async def master(self, broker_name: str) -> str | None:
        """Returns the address of a broker, which no route of this proxy may have named yet.

        Raises:
            OperatingError: no name server answers.
        """
        if broker_name not in self.masters:
            await self.learn_brokers()
        return self.masters.get(broker_name)

    async def learn_brokers(self) -> None:
        """Asks for all brokers, unless that was done just now.

        Raises:
            OperatingError: no name server answers.
        """
        now_s = self._clock.monotonic()
        if now_s - self._cluster_asked_s < CLUSTER_AGE_MAX_S:
            return
        self._cluster_asked_s = now_s
        answer = await self._ask(ClusterInfoRequest())
        for name, broker in ClusterInfo.decode(answer.body).broker_addr_table.items():
            if MASTER_ID in broker.broker_addrs:
                self.masters[name] = broker.broker_addrs[MASTER_ID]

    async def _ask(self, request: RequestHeader) -> Command:
        """Asks one name server after the other.

        Raises:
            ResponseError: one refused.
            OperatingError: the last one's error.
        """
        failure: OperatingError | None = None
        for address in self._addresses:
            try:
                return await self._pool.ask(address, request, TIMEOUT_MS)
            except ResponseError:
                raise
            except OperatingError as e:
                log.info("the name server %s does not answer: %s", address, e)
                failure = e
        assert failure is not None
        raise failure
