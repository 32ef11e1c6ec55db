"""Administration of topics: create, change, delete, list, inspect."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Literal

from pocketmq.client.admin.calls import AdminCalls, masters_of, queue_of
from pocketmq.client.admin.results import QueueState, QueueStats
from pocketmq.client.errors import TopicExistsError, UnknownTopicError
from pocketmq.protocol.bodies.groups import GroupList
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigTable,
    TopicFigures,
    TopicFiguresTable,
    TopicList,
    TopicNames,
    TopicStatsTable,
)
from pocketmq.protocol.errors import NotFoundError, TopicMissingError, UsageError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.names.names import AUTO_CREATE_TOPIC, check_topic, is_system_topic
from pocketmq.protocol.requests.groups import TopicGroupsRequest
from pocketmq.protocol.requests.nameserver import (
    DeleteTopicInNamesrvRequest,
    TopicListRequest,
    TopicsByClusterRequest,
)
from pocketmq.protocol.requests.offsets import OffsetResponse, QueryConsumerOffsetRequest
from pocketmq.protocol.requests.topics import (
    AllTopicConfigRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    TopicConfigRequest,
    TopicFiguresRequest,
    TopicStatsRequest,
)
from pocketmq.protocol.wire.header import RequestHeader

log = logging.getLogger("pocketmq.client")

QUEUES_DEFAULT = 16
"""Read and write queues, on each broker, of a topic that is made by hand."""

ROUTE_WAIT_S = 3.0
"""How long a change may take to reach the name server; after that the caller goes on."""

ROUTE_POLL_S = 0.01

IfExists = Literal["replace", "keep", "refuse"]
"""What `Admin.create_topic` does about a broker that has the topic."""


class TopicAdmin(AdminCalls):
    """The methods of `Admin` for topics."""

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
        if_exists: IfExists = "replace",
    ) -> list[str]:
        """Creates a topic, or sets all its settings anew, and waits until the route shows it.

        Args:
            topic: its name.
            queues: read and write queues on each broker.
            read_queues, write_queues: where the two counts differ.
            perm: bits of `protocol.flags`: 4 read, 2 write.
            order: an order topic.
            attributes: ``+name=value,-name``, such as ``+message.type=FIFO``; ``reserve.time`` is
                hours, ``pocketmq.retention.bytes`` bytes on each broker that messages are kept.
            cluster, broker_addr: where.
            if_exists: what becomes of brokers that have the topic: ``replace`` sets their settings
                anew, as mqadmin does; ``keep`` leaves them; ``refuse`` raises if they differ.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            IllegalNameError, UsageError: the name is illegal or reserved, a count is not positive.
            TopicExistsError: a broker has it with other settings, and `if_exists` refuses that.
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
        changed = addresses
        if if_exists != "replace":
            known = await asyncio.gather(*(self._known_config(topic, a) for a in addresses))
            changed = [a for a, there in zip(addresses, known, strict=True) if there is None]
            if if_exists == "refuse":
                for address, there in zip(addresses, known, strict=True):
                    if there is not None and not _agree(there, config, attributes):
                        raise TopicExistsError(address, there, config)
        await asyncio.gather(*(self._put_topic(a, config, attributes) for a in changed))
        await self._wait_for_route(config, changed)
        return addresses

    async def _known_config(self, topic: str, address: str) -> TopicConfig | None:
        try:
            return await self.topic_config(topic, address)
        except TopicMissingError:
            return None

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
        """Changes the given settings of a topic, on every broker that has the topic.

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
            addresses = masters_of(info, cluster)
        await asyncio.gather(*(self._ask(a, DeleteTopicRequest(topic=topic)) for a in addresses))
        await self._link.ask_all(DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster))

    async def topics(self, *, cluster: str | None = None) -> list[str]:
        """Returns the names of all topics, or of a cluster's, sorted."""
        request: RequestHeader = TopicListRequest()
        if cluster is not None:
            request = TopicsByClusterRequest(cluster=cluster)
        answer = await self._link.ask(request)
        return sorted(TopicList.decode(answer.body).topic_list)

    async def topic_config(self, topic: str, broker_addr: str) -> TopicConfig:
        """Returns a topic's settings on one broker.

        Raises:
            TopicMissingError: the broker does not have it.
        """
        answer = await self._ask(broker_addr, TopicConfigRequest(topic=topic))
        return TopicConfig.decode(answer.body)

    async def topic_configs(self, broker_addr: str) -> dict[str, TopicConfig]:
        """Returns the settings of all topics on one broker, the broker's own topics too."""
        answer = await self._ask(broker_addr, AllTopicConfigRequest())
        return TopicConfigTable.decode(answer.body).topic_config_table

    async def topic_stats(self, topic: str, *, broker_addr: str | None = None) -> list[QueueStats]:
        """Returns the offsets of each queue of a topic, sorted by broker and queue.

        Args:
            topic: its name.
            broker_addr: only of this broker; by default of all.

        Raises:
            UnknownTopicError: no broker has it.
            TopicMissingError: the broker of that address does not have it.
        """
        rows: list[QueueStats] = []
        for address in [broker_addr] if broker_addr else await self._topic_masters(topic):
            rows += await self._stats_on(topic, address)
        return sorted(rows, key=lambda row: row.queue)

    async def _stats_on(self, topic: str, address: str) -> list[QueueStats]:
        answer = await self._ask(address, TopicStatsRequest(topic=topic))
        if answer.remark:  # a PocketMQ broker names the queues that it cannot read
            log.warning("%s", answer.remark)
        return [
            QueueStats(queue_of(k), o.min_offset, o.max_offset, o.last_update_timestamp)
            for k, o in TopicStatsTable.decode(answer.body).offset_table.items()
        ]

    async def topic_figures(
        self, topics: Sequence[str], broker_addr: str
    ) -> dict[str, TopicFigures]:
        """Returns what one broker of this project holds of topics, and their rates, by name.

        Args:
            topics: their names, 1,000 at the most; those that the broker does not have are left
                out.
            broker_addr: which broker.

        Raises:
            ResponseError: 3, the broker is RocketMQ's, which does not tell this; 16, the user may
                not see one of the topics.
        """
        body = TopicNames(topics=list(topics)).encode()
        answer = await self._ask(broker_addr, TopicFiguresRequest(), body)
        return TopicFiguresTable.decode(answer.body).topics

    async def topic_queues(self, topic: str) -> list[QueueState]:
        """Returns every queue of a topic that exists or still holds messages, sorted.

        To shrink a topic, lower its write queues, wait until no group has anything unread in the
        queues behind them, then lower the read queues.

        Raises:
            UnknownTopicError: no broker has it.
        """
        rows = []
        for address in await self._topic_masters(topic):
            config = await self.topic_config(topic, address)
            answer = await self._ask(address, TopicGroupsRequest(topic=topic))
            groups = GroupList.decode(answer.body).group_list
            for stats in await self._stats_on(topic, address):
                queue_id = stats.queue.queue_id
                rows.append(
                    QueueState(
                        stats,
                        queue_id < config.read_queue_nums,
                        queue_id < config.write_queue_nums,
                        {group: await self._unread(address, group, stats) for group in groups},
                        config.attributes,
                    )
                )
        return sorted(rows, key=lambda row: row.stats.queue)

    async def _unread(self, address: str, group: str, stats: QueueStats) -> int:
        request = QueryConsumerOffsetRequest(
            consumer_group=group,
            topic=stats.queue.topic,
            queue_id=stats.queue.queue_id,
            set_zero_if_not_found=False,
        )
        try:
            offset = (await self._ask(address, request)).read(OffsetResponse).offset
        except NotFoundError:
            offset = 0
        return max(stats.max_offset - max(offset, stats.min_offset), 0)

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
        """Waits until the name server in use shows a change, or the time is over.

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


def _agree(known: TopicConfig, wanted: TopicConfig, attributes: str | None) -> bool:
    """Whether a topic has the settings that it would be created with."""
    given = [pair.partition("=") for pair in (attributes or "").split(",") if pair]
    return (
        (known.read_queue_nums, known.write_queue_nums, known.perm, known.order)
        == (wanted.read_queue_nums, wanted.write_queue_nums, wanted.perm, wanted.order)
    ) and all(known.attributes.get(name.lstrip("+")) == value for name, _, value in given)
