"""The base of all parts of `Admin`: its life, and its calls to name servers and brokers."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from pocketmq.client.errors import BrokerDownError, UnknownTopicError
from pocketmq.client.instance.instance import ClientInstance, InstanceLease, NamesrvList
from pocketmq.client.instance.namesrv_link import NamesrvLink
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.lifecycle import Startable
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.errors import ConfigError, TopicMissingError, UsageError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.nameserver import ClusterInfoRequest, RouteRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import Clock
from pocketmq.transport.pool import ConnectionPool


class AdminCalls(Startable):
    """Starts and closes an `Admin`, and calls name servers and brokers for it."""

    def __init__(
        self,
        namesrv: NamesrvList = None,
        *,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self._lease = InstanceLease(instance, namesrv, clock, random, settings)
        if self._lease.instance.namespace:
            raise ConfigError(
                "an admin is in no namespace: it takes names as they are on the wire, such as "
                f"{self._lease.instance.namespace.wrap('Orders')}; give it an instance of its own"
            )

    async def start(self) -> None:
        """Makes the admin client usable. Idempotent."""
        await self._lease.acquire()

    async def close(self) -> None:
        """Closes the admin client's connections, unless it shares an instance. Idempotent."""
        await self._lease.release()

    # -- clusters and routes ------------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """Returns all clusters and their brokers."""
        return ClusterInfo.decode((await self._link.ask(ClusterInfoRequest())).body)

    async def topic_route(self, topic: str) -> TopicRoute:
        """Returns a topic's route: its queues and the addresses of its brokers.

        Raises:
            UnknownTopicError: no broker has it.
        """
        request = RouteRequest(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self._link.ask(request)
        except TopicMissingError as e:
            raise UnknownTopicError(topic, self._link.current or "") from e
        return TopicRoute.decode(answer.body)

    # -- name servers and brokers -------------------------------------------------------------

    @property
    def _instance(self) -> ClientInstance:
        instance = self._lease.instance
        instance.check_running()
        return instance

    @property
    def _link(self) -> NamesrvLink:
        return self._instance.namesrv

    @property
    def _pool(self) -> ConnectionPool:
        return self._instance.pool

    @property
    def _offsets(self) -> QueueOffsets:
        instance = self._instance
        return QueueOffsets(instance.pool, instance.routes, instance.settings.call_timeout_ms)

    async def _ask(self, address: str, request: RequestHeader, body: bytes = b"") -> Command:
        return await self._pool.ask(address, request, self._instance.settings.call_timeout_ms, body)

    async def _brokers(self, cluster: str | None, broker_addr: str | None) -> list[str]:
        if broker_addr is not None:
            if cluster is not None:
                raise UsageError("give either a cluster or a broker address")
            return [broker_addr]
        return masters_of(await self.cluster_info(), cluster)

    async def _topic_masters(self, topic: str) -> list[str]:
        return list((await self._named_topic_masters(topic)).values())

    async def _named_topic_masters(self, topic: str) -> dict[str, str]:
        route = await self.topic_route(topic)
        by_name = sorted(route.broker_datas, key=lambda b: b.broker_name)
        masters = {b.broker_name: b.master_address for b in by_name if b.master_address}
        if not masters:
            raise BrokerDownError(topic, "the master of every broker")
        return masters


def masters_of(info: ClusterInfo, cluster: str | None) -> list[str]:
    """Returns the master addresses of a cluster, or of the only one that there is.

    Raises:
        UsageError: there is no such cluster, or several.
    """
    clusters: dict[str, Sequence[str]] = dict(info.cluster_addr_table)
    if cluster is None and len(clusters) == 1:
        cluster = next(iter(clusters))
    if cluster is None or cluster not in clusters:
        known = ", ".join(sorted(clusters)) or "none: no broker is registered"
        asked = "say which cluster is meant" if cluster is None else f"there is no {cluster}"
        raise UsageError(f"{asked}; known clusters: {known}")
    addresses = (info.broker_addr_table[name].master_address for name in sorted(clusters[cluster]))
    return [address for address in addresses if address]


def queue_of(key: QueueKey) -> MessageQueue:
    """Converts a key of a broker's offset table into a queue."""
    return MessageQueue(key.topic, key.broker_name, key.queue_id)
