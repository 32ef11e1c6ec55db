"""Subscription groups: settings, members, and where they stand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pocketmq.client.admin.calls import AdminCalls, queue_of
from pocketmq.client.admin_results import QueueLag
from pocketmq.client.errors import UnknownTopicError
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    GroupConfig,
    GroupConfigTable,
    ProducerConnection,
)
from pocketmq.protocol.bodies.topics import ConsumeStats
from pocketmq.protocol.errors import NotFoundError
from pocketmq.protocol.message import MessageQueue
from pocketmq.protocol.names import check_group, retry_topic
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ProducerConnectionsRequest,
)
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    ConsumeStatsRequest,
    DeleteGroupRequest,
    UpdateGroupRequest,
)


class GroupAdmin(AdminCalls):
    """What `Admin` does with groups."""

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
                QueueLag(queue_of(k), o.broker_offset, o.consumer_offset, o.last_timestamp)
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

    async def _group_brokers(self, group: str, topic: str | None) -> Sequence[str]:
        """The brokers of a topic, or of the group's retry topic, or all of them."""
        try:
            return await self._topic_masters(topic or retry_topic(group))
        except UnknownTopicError:
            if topic is not None:
                raise
            return await self._brokers(None, None)
