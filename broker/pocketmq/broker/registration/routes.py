"""Asks name servers where the queues of a topic are, for what a broker tells of other brokers."""

from __future__ import annotations

import logging
from typing import NamedTuple

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.registration.registration import name_server_list
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.routes import BrokerData, QueueData, TopicRoute
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import PocketMQError, response_error
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import BeforeRequest
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.settings import client_tls

log = logging.getLogger("pocketmq.broker")

ROUTE_AGE_MAX_S = 10.0
"""A route is asked for again when it is older."""

ROUTES_MAX = 10_000
"""Routes that are remembered; beyond them all are forgotten."""

ROUTE_TIMEOUT_MS = 3000


class _Known(NamedTuple):
    route: TopicRoute | None
    asked_s: float


class TopicRoutes:
    """Routes of topics, from the first name server that answers.

    A broker without name servers is the only one of its cluster.

    Args:
        settings: the broker's.
        address: of the broker, ``host:port``.
        topics: of the broker.
        clock: for time limits.
        before_request: called with each request before it is encoded, as of `ConnectionPool`.
    """

    def __init__(
        self,
        settings: Live[BrokerConfig],
        address: str,
        topics: TopicTable,
        clock: Clock,
        before_request: tuple[BeforeRequest, ...] = (),
    ) -> None:
        self._settings, self._address, self._topics = settings, address, topics
        self._clock, self._before_request = clock.machine, before_request
        self._servers = name_server_list(settings.now.namesrv_addr)
        self._pool: ConnectionPool | None = None
        self._known: dict[str, _Known] = {}

    async def find(self, topic: str) -> TopicRoute | None:
        """Returns the route of a topic; None if no broker has it."""
        known, now_s = self._known.get(topic), self._clock.monotonic()
        if known is not None and now_s - known.asked_s < ROUTE_AGE_MAX_S:
            return known.route
        route = await self._ask(topic)
        if len(self._known) >= ROUTES_MAX:
            self._known.clear()
        self._known[topic] = _Known(route, now_s)
        return route

    async def _ask(self, topic: str) -> TopicRoute | None:
        pool = self._pool
        if pool is None:
            pool = self._pool = ConnectionPool(
                self._clock,
                before_request=self._before_request,
                tls=client_tls(self._settings.now),
            )
        request = RouteRequest(topic=topic)
        for server in self._servers:
            try:
                command = Command(request.code, header=request)
                connection = await pool.get(server)
                answer = await connection.call(command, ROUTE_TIMEOUT_MS)
                if answer.code == ResponseCode.SUCCESS:
                    return TopicRoute.decode(answer.body)
                if answer.code == ResponseCode.TOPIC_NOT_EXIST:
                    return self._own(topic)
                raise response_error(answer.code, answer.remark, server)
            except PocketMQError as e:
                log.info("name server %s does not tell the route of %s: %s", server, topic, e)
        return self._own(topic)

    def _own(self, topic: str) -> TopicRoute | None:
        """The part of a route that this broker knows by itself."""
        config, settings = self._topics.get(topic), self._settings.now
        if config is None:
            return None
        name = settings.broker_name
        queues = QueueData(
            broker_name=name,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_sys_flag=config.topic_sys_flag,
        )
        broker = BrokerData(
            cluster=settings.broker_cluster_name,
            broker_name=name,
            broker_addrs={settings.broker_id: self._address},
        )
        return TopicRoute(queue_datas=[queues], broker_datas=[broker])

    async def close(self) -> None:
        """Closes the connections."""
        if self._pool is not None:
            await self._pool.close()
