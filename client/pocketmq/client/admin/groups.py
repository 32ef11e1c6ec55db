"""Administration of subscription groups: settings, members, and what members report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.client.errors import UnknownTopicError
from pocketmq.protocol.bodies.clients import (
    ConsumerConnection,
    GroupConfig,
    GroupConfigTable,
    ProducerConnection,
)
from pocketmq.protocol.bodies.groups import (
    ConsumeDirectlyResult,
    ConsumerStatus,
    GroupList,
    RunningInfo,
)
from pocketmq.protocol.bodies.topics import QueueKey, TopicList
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import GroupMissingError, NotFoundError, ResponseError
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names.names import check_group, dlq_topic, retry_topic
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ProducerConnectionsRequest,
)
from pocketmq.protocol.requests.groups import (
    ConsumeDirectlyRequest,
    ConsumerStatusRequest,
    GroupTopicsRequest,
    RunningInfoRequest,
    TopicGroupsRequest,
)
from pocketmq.protocol.requests.nameserver import DeleteTopicInNamesrvRequest
from pocketmq.protocol.requests.offsets import ViewMessageRequest
from pocketmq.protocol.requests.topics import (
    AllGroupConfigRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    UpdateGroupRequest,
)

FORBIDDEN_TO_READ = 1 << 2
"""The bit of a group's table of forbidden topics (`PermName.INDEX_PERM_READ`)."""

RELAYED_CALL_TIMEOUT_MS = 15_000
"""A broker waits up to 10 s for the consumer that it asks."""


class GroupAdmin(AdminCalls):
    """The methods of `Admin` for subscription groups."""

    # -- settings -----------------------------------------------------------------------------

    async def create_group(
        self,
        group: str | GroupConfig,
        *,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a group, or sets all its settings anew.

        Args:
            group: its settings; a name alone for RocketMQ's defaults.
            cluster, broker_addr: where.

        Returns:
            The addresses of the brokers that have it now.

        Raises:
            IllegalNameError: the name is illegal.
        """
        config = group if isinstance(group, GroupConfig) else GroupConfig(group_name=group)
        check_group(config.group_name)
        addresses = await self._brokers(cluster, broker_addr)
        await asyncio.gather(*(self._put_group(a, config) for a in addresses))
        return addresses

    async def update_group(
        self,
        group: str,
        *,
        consume_enable: bool | None = None,
        consume_broadcast_enable: bool | None = None,
        consume_message_orderly: bool | None = None,
        retry_queue_nums: int | None = None,
        retry_max_times: int | None = None,
        notify_consumer_ids_changed_enable: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes the given settings of a group, on every broker that has the group.

        Args:
            group: its name.
            consume_enable: False refuses its pulls.
            consume_broadcast_enable: False refuses pulls of members that broadcast.
            consume_message_orderly: it consumes in order (a note for people and proxies).
            retry_queue_nums: queues of its retry topic; 0 for no retries.
            retry_max_times: retries before a message goes to the dead letters.
            notify_consumer_ids_changed_enable: notify its members when one comes or goes.
            attributes: ``+name`` sets and ``-name`` removes.
            cluster, broker_addr: where; by default in the only cluster that there is.

        Returns:
            The addresses of the brokers that were changed.

        Raises:
            GroupMissingError: no broker has it.
        """
        given = {
            "consume_enable": consume_enable,
            "consume_broadcast_enable": consume_broadcast_enable,
            "consume_message_orderly": consume_message_orderly,
            "retry_queue_nums": retry_queue_nums,
            "retry_max_times": retry_max_times,
            "notify_consumer_ids_changed_enable": notify_consumer_ids_changed_enable,
        }
        configs = await self.group_configs(group, cluster=cluster, broker_addr=broker_addr)
        for address, config in configs.items():
            for name, value in given.items():
                if value is not None:
                    setattr(config, name, value)
            config.attributes = dict(attributes or {})
            await self._put_group(address, config)
        return list(configs)

    async def _put_group(self, address: str, config: GroupConfig) -> None:
        await self._ask(address, UpdateGroupRequest(), config.encode())

    async def delete_group(
        self,
        group: str,
        *,
        clean_offset: bool = False,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> None:
        """Deletes a group with its retry and dead-letter topics.

        Members that run make it anew where groups are created on first use.

        Args:
            group: its name.
            clean_offset: forget where it stood, too.
            cluster: where; by default in the only cluster that there is.
            broker_addr: on this broker alone; its topics stay then, as with mqadmin.

        Raises:
            GroupMissingError: no broker has it.
        """
        await self.group_configs(group, cluster=cluster, broker_addr=broker_addr)
        addresses = await self._brokers(cluster, broker_addr)
        request = DeleteGroupRequest(group_name=group, clean_offset=clean_offset)
        for address in addresses:
            await self._ask(address, request)
        if broker_addr is None:
            for topic in (retry_topic(group), dlq_topic(group)):
                for address in addresses:
                    await self._ask(address, DeleteTopicRequest(topic=topic))
                await self._link.ask_all(
                    DeleteTopicInNamesrvRequest(topic=topic, cluster_name=cluster)
                )

    async def groups(self, *, cluster: str | None = None) -> list[str]:
        """Returns the names of all subscription groups, sorted."""
        names: set[str] = set()
        for address in await self._brokers(cluster, None):
            names |= (await self._group_table(address)).keys()
        return sorted(names)

    async def group_config(self, group: str, broker_addr: str) -> GroupConfig:
        """Returns a group's settings on one broker.

        Raises:
            NotFoundError: the broker does not have it.
        """
        config = (await self._group_table(broker_addr)).get(group)
        if config is None:
            raise NotFoundError(22, f"there is no group {group}", broker_addr)
        return config

    async def forbidden_topics(self, group: str, broker_addr: str) -> list[str]:
        """Returns the topics that a group may not read on one broker (updateGroupForbidden)."""
        answer = await self._ask(broker_addr, AllGroupConfigRequest())
        table = GroupConfigTable.decode(answer.body).forbidden_table.get(group, {})
        return sorted(topic for topic, bits in table.items() if bits & FORBIDDEN_TO_READ)

    async def group_configs(
        self, group: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, GroupConfig]:
        """Returns a group's settings by the address of each broker that has the group.

        Raises:
            GroupMissingError: no broker has it.
        """
        out = {}
        for address in await self._brokers(cluster, broker_addr):
            config = (await self._group_table(address)).get(group)
            if config is not None:
                out[address] = config
        if not out:
            raise GroupMissingError(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"there is no group {group}: create it, or let a consumer start that uses it",
            )
        return out

    async def _group_table(self, address: str) -> dict[str, GroupConfig]:
        # An Apache broker makes the group that it is asked for by name, but not for this list.
        answer = await self._ask(address, AllGroupConfigRequest())
        return GroupConfigTable.decode(answer.body).subscription_group_table

    # -- members ------------------------------------------------------------------------------

    async def topic_groups(self, topic: str) -> list[str]:
        """Returns the groups that consume a topic or have done so, sorted.

        Raises:
            UnknownTopicError: no broker has it.
        """
        names: set[str] = set()
        for address in await self._topic_masters(topic):
            answer = await self._ask(address, TopicGroupsRequest(topic=topic))
            names |= set(GroupList.decode(answer.body).group_list)
        return sorted(names)

    async def group_topics(self, group: str, *, cluster: str | None = None) -> list[str]:
        """Returns the topics in which a group has offsets, sorted."""
        names: set[str] = set()
        for address in await self._brokers(cluster, None):
            answer = await self._ask(address, GroupTopicsRequest(group=group))
            names |= set(TopicList.decode(answer.body).topic_list)
        return sorted(names)

    async def consumer_connections(self, group: str, broker_addr: str) -> ConsumerConnection:
        """Returns a group's consumers on one broker; raises code 206 if there are none."""
        request = ConsumerConnectionsRequest(consumer_group=group)
        return ConsumerConnection.decode((await self._ask(broker_addr, request)).body)

    async def consumers(
        self, group: str, *, cluster: str | None = None
    ) -> dict[str, ConsumerConnection]:
        """Returns a group's consumers by the address of each broker that has some."""
        out = {}
        for address in await self._brokers(cluster, None):
            try:
                out[address] = await self.consumer_connections(group, address)
            except ResponseError as e:
                if e.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
        return out

    async def producer_connections(self, group: str, broker_addr: str) -> ProducerConnection:
        """Returns a group's producers on one broker; raises code 1 if there are none."""
        request = ProducerConnectionsRequest(producer_group=group)
        return ProducerConnection.decode((await self._ask(broker_addr, request)).body)

    # -- reports of consumers -----------------------------------------------------------------

    async def running_info(
        self,
        group: str,
        client_id: str,
        *,
        stacks: bool = False,
        broker_addr: str | None = None,
    ) -> RunningInfo:
        """Asks a consumer for its running info: settings, queues, rates.

        Args:
            group: its group.
            client_id: of the consumer.
            stacks: what its threads (and tasks) are doing, too.
            broker_addr: of a broker that it is connected to; by default all are asked for it.

        Raises:
            ResponseError: 206, it is connected to no broker; 207, it does not answer.
        """
        address = broker_addr or await self._broker_of(group, client_id)
        request = RunningInfoRequest(
            consumer_group=group, client_id=client_id, jstack_enable=stacks
        )
        answer = await self._pool.ask(address, request, RELAYED_CALL_TIMEOUT_MS)
        return RunningInfo.decode(answer.body)

    async def _broker_of(self, group: str, client_id: str) -> str:
        for address, members in (await self.consumers(group)).items():
            if any(member.client_id == client_id for member in members.connection_set):
                return address
        raise ResponseError(
            ResponseCode.CONSUMER_NOT_ONLINE,
            f"no consumer {client_id} of group {group} is connected to any broker",
        )

    async def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str
    ) -> ConsumeDirectlyResult:
        """Makes one consumer handle one message, beside its queues; no offset changes.

        Raises:
            UsageError: it is no offset message id.
            ResponseError: 1, there is no such message, or no such consumer on the message's broker;
                207, it does not answer.
        """
        address = parse_offset_msg_id(offset_msg_id)
        found = await self._ask(
            address.store_host, ViewMessageRequest(offset=address.physical_offset)
        )
        record = next(decode_records(found.body))
        request = ConsumeDirectlyRequest(
            consumer_group=group, client_id=client_id, msg_id=offset_msg_id, topic=record.topic
        )
        answer = await self._pool.ask(address.store_host, request, RELAYED_CALL_TIMEOUT_MS)
        return ConsumeDirectlyResult.decode(answer.body)

    async def consumer_status(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[QueueKey, int]]:
        """Asks a group's consumers for their offsets in a topic, by client id and queue.

        What they have not committed yet is counted; brokers know only of what is committed.
        """
        out: dict[str, dict[QueueKey, int]] = {}
        request = ConsumerStatusRequest(topic=topic, group=group, client_addr=client_id)
        try:
            addresses = await self._topic_masters(topic)
        except UnknownTopicError:
            return out
        for address in addresses:
            try:
                answer = await self._pool.ask(address, request, RELAYED_CALL_TIMEOUT_MS)
            except ResponseError as e:
                if e.code != ResponseCode.SYSTEM_ERROR:
                    raise
                continue  # no member of the group is connected
            for name, offsets in ConsumerStatus.decode(answer.body).consumer_table.items():
                out.setdefault(name, {}).update(offsets)
        return out
