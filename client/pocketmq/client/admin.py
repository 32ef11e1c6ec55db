"""Administration: topics, groups, clusters, brokers, name-server tables."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random
from typing import Any

from typing_extensions import Self

from pocketmq.client.admin_results import (
    BrokerRow,
    QueueLag,
    QueueStats,
    parse_properties_text,
)
from pocketmq.client.errors import BrokerDownError, UnknownTopicError
from pocketmq.client.instance import ClientInstance, InstanceUse, NamesrvList
from pocketmq.client.namesrv_link import NamesrvLink
from pocketmq.client.queue_offsets import QueueOffsets
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    GroupConfig,
    GroupConfigTable,
    ProducerConnection,
)
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import (
    ConsumeStats,
    KVTable,
    QueueKey,
    TopicConfig,
    TopicList,
    TopicStatsTable,
)
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import (
    NotFoundError,
    TopicMissingError,
    UsageError,
)
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.header import RequestHeader
from pocketmq.protocol.ids import parse_offset_msg_id
from pocketmq.protocol.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.names import (
    AUTO_CREATE_TOPIC,
    check_group,
    check_topic,
    is_system_topic,
    retry_topic,
)
from pocketmq.protocol.records import decode_records
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ProducerConnectionsRequest,
)
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    ClusterInfoRequest,
    DeleteKVConfigRequest,
    DeleteTopicInNamesrvRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListRequest,
    PutKVConfigRequest,
    RouteRequest,
    TopicListRequest,
    TopicsByClusterRequest,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.requests.offsets import ViewMessageRequest
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    BrokerConfigRequest,
    ConsumeStatsRequest,
    CreateTopicRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    RuntimeInfoRequest,
    TopicConfigRequest,
    TopicStatsRequest,
    UpdateGroupRequest,
)
from pocketmq.transport.clock import Clock
from pocketmq.transport.pool import ConnectionPool

QUEUES_DEFAULT = 16
"""Read and write queues, on each broker, of a topic that is made by hand."""

ROUTE_WAIT_S = 3.0
"""How long a change may take to reach the name server; after that the caller goes on."""

ROUTE_POLL_S = 0.01


class Admin:
    """Administers a cluster (`tools/admin/DefaultMQAdminExtImpl`)::

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("Orders", queues=8)

    Methods that change brokers take `cluster` (all its masters) or `broker_addr` (one address);
    with neither they apply to the only cluster that there is. All methods may raise
    NoNameServerError, ResponseError and the transport's errors.

    Args:
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        instance: a shared instance instead of one of its own.
        clock: the source of time.
        random: the source of chance.
        settings: fields of `InstanceSettings`.

    Raises:
        ConfigError.
    """

    def __init__(
        self,
        namesrv: NamesrvList = None,
        *,
        instance: ClientInstance | None = None,
        clock: Clock | None = None,
        random: Random | None = None,
        **settings: Any,
    ) -> None:
        self._use = InstanceUse(instance, namesrv, clock, random, settings)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Makes it usable. Idempotent."""
        await self._use.enter()

    async def close(self) -> None:
        """Closes the connections, if they are its own. Idempotent."""
        await self._use.leave()

    # -- topics -------------------------------------------------------------------------------

    async def create_topic(
        self,
        topic: str,
        queues: int = QUEUES_DEFAULT,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a topic, or sets all its settings anew, and waits until the route shows it.

        Args:
            topic: its name.
            queues: read and write queues on each broker.
            read_queues, write_queues: where the two counts differ.
            perm: bits of `protocol.flags`: 4 read, 2 write.
            order: an order topic.
            attributes: ``+name=value,-name``, such as ``+message.type=FIFO``.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            IllegalNameError, UsageError: the name is illegal or reserved, a count is not positive.
        """
        check_topic(topic)
        if is_system_topic(topic):
            raise UsageError(f"topic {topic} belongs to the brokers and cannot be set")
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues if read_queues is None else read_queues,
            write_queue_nums=queues if write_queues is None else write_queues,
            perm=perm,
            order=order,
        )
        if min(config.read_queue_nums, config.write_queue_nums) < 1:
            raise UsageError("a topic needs at least one read and one write queue")
        addresses = await self._brokers(cluster, broker_addr)
        await asyncio.gather(*(self._put_topic(a, config, attributes) for a in addresses))
        await self._wait_for_route(config, addresses)
        return addresses

    async def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a topic's settings, on every broker that has it.

        To shrink a topic without loss, lower the write queues first and the read queues when they
        are empty; to expand it, raise the read queues first.

        Args:
            topic, read_queues, write_queues, perm, order, attributes: as of `create_topic`.
            cluster, broker_addr: where; by default everywhere.

        Returns:
            The addresses of the brokers that were changed.

        Raises:
            UnknownTopicError: no broker has it.
        """
        if cluster is None and broker_addr is None:
            addresses = await self._topic_masters(topic)
        else:
            addresses = await self._brokers(cluster, broker_addr)
        for address in addresses:
            config = await self.topic_config(topic, address)
            if read_queues is not None:
                config.read_queue_nums = read_queues
            if write_queues is not None:
                config.write_queue_nums = write_queues
            if perm is not None:
                config.perm = perm
            if order is not None:
                config.order = order
            await self._put_topic(address, config, attributes)
            await self._wait_for_route(config, [address])
        return addresses

    async def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Deletes a topic with its messages and offsets, on brokers and in name servers.

        Args:
            topic: its name.
            cluster: only there; by default everywhere.

        Raises:
            UnknownTopicError: no broker has it.
        """
        info = await self.cluster_info()
        if cluster is None:
            addresses = await self._topic_masters(topic)
        else:
            addresses = _masters(info, cluster)
        await asyncio.gather(*(self._ask(a, DeleteTopicRequest(topic=topic)) for a in addresses))
        await self._link.ask_all(DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster))

    async def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of a cluster's, sorted."""
        request: RequestHeader = TopicListRequest()
        if cluster is not None:
            request = TopicsByClusterRequest(cluster=cluster)
        answer = await self._link.ask(request)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def topic_route(self, topic: str) -> TopicRoute:
        """Where a topic's queues are.

        Raises:
            UnknownTopicError: no broker has it.
        """
        request = RouteRequest(topic=topic, accept_standard_json_only=True)
        try:
            answer = await self._link.ask(request)
        except TopicMissingError as e:
            raise UnknownTopicError(topic, self._link.current or "") from e
        return TopicRoute.decode(answer.body)

    async def topic_config(self, topic: str, broker_addr: str) -> TopicConfig:
        """A topic's settings on one broker.

        Raises:
            TopicMissingError: the broker does not have it.
        """
        answer = await self._ask(broker_addr, TopicConfigRequest(topic=topic))
        return TopicConfig.decode(answer.body)

    async def topic_stats(self, topic: str) -> list[QueueStats]:
        """What each queue of a topic holds, sorted by broker and queue.

        Raises:
            UnknownTopicError: no broker has it.
        """
        rows: list[QueueStats] = []
        for address in await self._topic_masters(topic):
            answer = await self._ask(address, TopicStatsRequest(topic=topic))
            rows += [
                QueueStats(_queue(k), o.min_offset, o.max_offset, o.last_update_timestamp)
                for k, o in TopicStatsTable.decode(answer.body).offset_table.items()
            ]
        return sorted(rows, key=lambda row: row.queue)

    # -- clusters and brokers -----------------------------------------------------------------

    async def cluster_info(self) -> ClusterInfo:
        """All clusters and their brokers."""
        return ClusterInfo.decode((await self._link.ask(ClusterInfoRequest())).body)

    async def brokers(self) -> list[BrokerRow]:
        """All brokers, sorted by cluster, name and id."""
        info = await self.cluster_info()
        rows = [
            BrokerRow(cluster, name, broker_id, address)
            for cluster, names in info.cluster_addr_table.items()
            for name in names
            if name in info.broker_addr_table
            for broker_id, address in info.broker_addr_table[name].broker_addrs.items()
        ]
        return sorted(rows, key=lambda row: (row.cluster, row.broker_name, row.broker_id))

    async def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """A broker's figures, such as ``putTps`` or ``msgPutTotalTodayNow``."""
        return KVTable.decode((await self._ask(broker_addr, RuntimeInfoRequest())).body).table

    async def broker_config(self, broker_addr: str) -> dict[str, str]:
        """A broker's settings."""
        answer = await self._ask(broker_addr, BrokerConfigRequest())
        return parse_properties_text(answer.body.decode())

    async def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing; returns how many topics that were."""
        answers = await self._link.ask_all(WipeWritePermRequest(broker_name=broker_name))
        return max(a.read(WipeWritePermResponse).wipe_topic_count for a in answers)

    async def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`; returns how many topics that were."""
        answers = await self._link.ask_all(AddWritePermRequest(broker_name=broker_name))
        return max(a.read(AddWritePermResponse).add_topic_count for a in answers)

    # -- groups -------------------------------------------------------------------------------

    async def groups(self, *, cluster: str | None = None) -> list[str]:
        """The names of all subscription groups, sorted."""
        names: set[str] = set()
        for address in await self._brokers(cluster, None):
            answer = await self._ask(address, AllGroupConfigRequest())
            names |= GroupConfigTable.decode(answer.body).subscription_group_table.keys()
        return sorted(names)

    async def group_config(self, group: str, broker_addr: str) -> GroupConfig:
        """A group's settings on one broker.

        Raises:
            NotFoundError: the broker does not have it.
        """
        answer = await self._ask(broker_addr, AllGroupConfigRequest())
        config = GroupConfigTable.decode(answer.body).subscription_group_table.get(group)
        if config is None:
            raise NotFoundError(22, f"there is no group {group}", broker_addr)
        return config

    async def update_group(
        self, config: GroupConfig, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> list[str]:
        """Creates a group, or sets all its settings anew; returns the brokers' addresses."""
        check_group(config.group_name)
        addresses = await self._brokers(cluster, broker_addr)
        body = config.encode()
        await asyncio.gather(*(self._ask(a, UpdateGroupRequest(), body) for a in addresses))
        return addresses

    async def delete_group(
        self,
        group: str,
        *,
        clean_offset: bool = False,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> None:
        """Deletes a group and, with `clean_offset`, where it stood."""
        request = DeleteGroupRequest(group_name=group, clean_offset=clean_offset)
        for address in await self._brokers(cluster, broker_addr):
            await self._ask(address, request)

    async def consume_stats(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """Where a group stands in each queue, sorted by topic, broker and queue.

        Args:
            group: the consumer group.
            topic: only this topic.
        """
        request = ConsumeStatsRequest(consumer_group=group, topic=topic)
        rows: list[QueueLag] = []
        for address in await self._group_brokers(group, topic):
            answer = await self._ask(address, request)
            rows += [
                QueueLag(_queue(k), o.broker_offset, o.consumer_offset, o.last_timestamp)
                for k, o in ConsumeStats.decode(answer.body).offset_table.items()
            ]
        return sorted(rows, key=lambda row: row.queue)

    async def consumer_connections(self, group: str, broker_addr: str) -> ConsumerConnection:
        """Who consumes as a group, and what; code 206 when nobody does."""
        request = ConsumerConnectionsRequest(consumer_group=group)
        return ConsumerConnection.decode((await self._ask(broker_addr, request)).body)

    async def producer_connections(self, group: str, broker_addr: str) -> ProducerConnection:
        """Who produces as a group; code 1 when nobody does."""
        request = ProducerConnectionsRequest(producer_group=group)
        return ProducerConnection.decode((await self._ask(broker_addr, request)).body)

    async def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Stores where a group that does not run continues."""
        await self._offsets.commit(group, queue, offset)

    # -- messages -----------------------------------------------------------------------------

    async def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """A message by the address that its id carries.

        Raises:
            UsageError: it is no offset message id.
            ResponseError: nothing is stored there.
        """
        place = parse_offset_msg_id(offset_msg_id)
        request = ViewMessageRequest(offset=place.physical_offset)
        answer = await self._ask(place.store_host, request)
        return next(decode_records(answer.body))

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset of a queue stored at that time or later."""
        return await self._offsets.at_time(queue, timestamp_ms)

    # -- the name servers' KV configuration ---------------------------------------------------

    async def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key of a namespace on all name servers."""
        await self._link.ask_all(PutKVConfigRequest(namespace=namespace, key=key, value=value))

    async def kv_get(self, namespace: str, key: str) -> str | None:
        """A key's value; None when it is not set."""
        try:
            answer = await self._link.ask(GetKVConfigRequest(namespace=namespace, key=key))
        except NotFoundError:
            return None
        return answer.read(GetKVConfigResponse).value

    async def kv_delete(self, namespace: str, key: str) -> None:
        """Removes a key of a namespace on all name servers."""
        await self._link.ask_all(DeleteKVConfigRequest(namespace=namespace, key=key))

    async def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace."""
        try:
            answer = await self._link.ask(GetKVListRequest(namespace=namespace))
        except NotFoundError:
            return {}
        return KVTable.decode(answer.body).table

    # -- who to ask ---------------------------------------------------------------------------

    @property
    def _instance(self) -> ClientInstance:
        instance = self._use.instance
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

    async def _put_topic(self, address: str, config: TopicConfig, attributes: str | None) -> None:
        request = CreateTopicRequest(
            topic=config.topic_name,
            default_topic=AUTO_CREATE_TOPIC,
            read_queue_nums=config.read_queue_nums,
            write_queue_nums=config.write_queue_nums,
            perm=config.perm,
            topic_filter_type=config.topic_filter_type,
            topic_sys_flag=config.topic_sys_flag,
            order=config.order,
            attributes=attributes,
        )
        await self._ask(address, request)

    async def _wait_for_route(self, config: TopicConfig, addresses: Sequence[str]) -> None:
        """Returns when the name server in use knows of a change, or when that takes too long.

        Brokers register changes at once, but they answer before the name server has.
        """
        wanted = (config.read_queue_nums, config.write_queue_nums, config.perm)
        clock = self._instance.clock
        deadline = clock.monotonic() + ROUTE_WAIT_S
        while clock.monotonic() < deadline:
            try:
                route = await self.topic_route(config.topic_name)
            except UnknownTopicError:
                route = TopicRoute()
            changed = {
                d.broker_name
                for d in route.queue_datas
                if (d.read_queue_nums, d.write_queue_nums, d.perm) == wanted
            }
            shown = {b.master_address for b in route.broker_datas if b.broker_name in changed}
            if shown.issuperset(addresses):
                return
            await clock.sleep(ROUTE_POLL_S)

    async def _brokers(self, cluster: str | None, broker_addr: str | None) -> list[str]:
        if broker_addr is not None:
            if cluster is not None:
                raise UsageError("give either a cluster or a broker address")
            return [broker_addr]
        return _masters(await self.cluster_info(), cluster)

    async def _topic_masters(self, topic: str) -> list[str]:
        route = await self.topic_route(topic)
        by_name = sorted(route.broker_datas, key=lambda b: b.broker_name)
        masters = [b.master_address for b in by_name if b.master_address]
        if not masters:
            raise BrokerDownError(topic, "the master of every broker")
        return masters

    async def _group_brokers(self, group: str, topic: str | None) -> Sequence[str]:
        """The brokers of a topic, or of the group's retry topic, or all of them."""
        try:
            return await self._topic_masters(topic or retry_topic(group))
        except UnknownTopicError:
            if topic is not None:
                raise
            return await self._brokers(None, None)


def _masters(info: ClusterInfo, cluster: str | None) -> list[str]:
    clusters: dict[str, Sequence[str]] = dict(info.cluster_addr_table)
    if cluster is None and len(clusters) == 1:
        cluster = next(iter(clusters))
    if cluster is None or cluster not in clusters:
        known = ", ".join(sorted(clusters)) or "none: no broker is registered"
        asked = "say which cluster is meant" if cluster is None else f"there is no {cluster}"
        raise UsageError(f"{asked}; known clusters: {known}")
    addresses = (info.broker_addr_table[name].master_address for name in sorted(clusters[cluster]))
    return [address for address in addresses if address]


def _queue(key: QueueKey) -> MessageQueue:
    return MessageQueue(key.topic, key.broker_name, key.queue_id)
