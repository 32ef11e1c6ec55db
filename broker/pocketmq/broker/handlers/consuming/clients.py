"""Heartbeats and membership (`broker/processor/ClientManageProcessor`)."""

from __future__ import annotations

from collections.abc import Awaitable, Set
from itertools import islice
from typing import TypeVar

from pocketmq.broker.groups.clients import ConsumerTable, Member, ProducerTable
from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.name_limits import NameLimits
from pocketmq.broker.reading.filters import SelectionShare
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.clients import (
    CheckClientConfigBody,
    ConsumerConnection,
    ConsumerData,
    ConsumerIdList,
    Heartbeat,
    ProducerConnection,
    ProducerData,
)
from pocketmq.protocol.bodies.groups import ProducerInfo, ProducerTableInfo
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.names.names import retry_topic
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ConsumerListRequest,
    HeartbeatResponse,
    ProducerConnectionsRequest,
    UnregisterClientRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import NoFields
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.runtime.slices import encoded_in_slices, in_slices
from pocketmq.transport.connection import CLIENT_ID, Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold

GroupT = TypeVar("GroupT", ConsumerData, ProducerData)

GROUPS_PER_TURN = 250
"""Groups of one heartbeat that are taken between two turns of the loop, a few milliseconds."""


class ClientHandlers:
    """Enters and removes the clients that heartbeats announce, and lists them."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        producers: ProducerTable,
        consumers: ConsumerTable,
        clock: Clock,
        selections: SelectionShare,
        sql_enabled: Live[bool],
        limits: Live[NameLimits],
    ) -> None:
        self._topics, self._groups = topics, groups
        self._producers, self._consumers = producers, consumers
        self._clock, self._selections, self._sql_enabled = clock, selections, sql_enabled
        self._limits = limits

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.HEART_BEAT: self.heartbeat,
            RequestCode.UNREGISTER_CLIENT: self.unregister,
            RequestCode.GET_CONSUMER_LIST_BY_GROUP: self.consumer_list,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_client_config,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def heartbeat(
        self, command: Command, connection: Connection
    ) -> Command | Awaitable[Command | None]:
        """34. A heartbeat with a fingerprint (version 2) may leave the subscriptions out.

        One that names very many groups is handled in slices, between which other tasks run.
        """
        data = Heartbeat.of_request(command.body)
        connection.attributes[CLIENT_ID] = data.client_id
        given = len(data.consumer_data_set) + len(data.producer_data_set)
        consumers = self._admitted(data.consumer_data_set, self._consumers.groups_of(connection))
        producers = self._admitted(data.producer_data_set, self._producers.groups_of(connection))
        count = len(consumers) + len(producers)
        data.consumer_data_set, data.producer_data_set = consumers, producers
        if count > GROUPS_PER_TURN:
            return self._heartbeat_in_slices(command, connection, data, given - count)
        is_changed = self._take_consumers(command, connection, data, consumers)
        self._take_producers(command, connection, data, producers)
        return self._heartbeat_answer(is_changed=is_changed, left_out=given - count)

    def _admitted(self, given: list[GroupT], known: Set[str]) -> list[GroupT]:
        """Returns the groups of which a connection is a member, or may become one."""
        room = self._limits.now.of_connection - len(known)
        if len(given) <= room:
            return given
        named = {data.group_name: data for data in given}
        new = islice((name for name in named if name not in known), max(room, 0))
        taken = known | set(new)
        return [data for name, data in named.items() if name in taken]

    async def _heartbeat_in_slices(
        self, command: Command, connection: Connection, data: Heartbeat, left_out: int
    ) -> Command | None:
        consumers, producers = data.consumer_data_set, data.producer_data_set
        is_changed = False
        starts = range(0, max(len(consumers), len(producers)), GROUPS_PER_TURN)
        async for start in in_slices(self._clock, starts, 1):
            if connection.is_closing:  # all that was known of it is forgotten
                return None
            part = slice(start, start + GROUPS_PER_TURN)
            is_changed |= self._take_consumers(command, connection, data, consumers[part])
            self._take_producers(command, connection, data, producers[part])
        return self._heartbeat_answer(is_changed=is_changed, left_out=left_out)

    def _heartbeat_answer(self, *, is_changed: bool, left_out: int) -> Command:
        if left_out:
            limit = self._limits.now.of_connection
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"{left_out} groups of the heartbeat were left out: a connection can be a consumer "
                f"in {limit} groups, and a producer in as many (maxNamesOfConnection)",
            )
        return Command(
            ResponseCode.SUCCESS,
            header=HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_changed),
        )

    def _take_consumers(
        self,
        command: Command,
        connection: Connection,
        data: Heartbeat,
        consumers: list[ConsumerData],
    ) -> bool:
        """Enters the consumers of a heartbeat; returns whether their subscriptions have changed."""
        fingerprint = data.heartbeat_fingerprint
        # Groups that cannot be made are told by their pulls; the client's others must go on.
        wanted = self._groups.find_all((c.group_name for c in consumers), connection)
        groups = {group.group_name: group for group in wanted}
        retried = [g for g in groups.values() if g.retry_queue_nums > 0]
        self._topics.create_for_groups(
            {retry_topic(g.group_name): g.retry_queue_nums for g in retried}
        )
        is_changed = not fingerprint
        for consumer in consumers:
            if consumer.group_name in groups:
                is_changed |= self._consumers.heartbeat(
                    consumer,
                    self._member(command, connection, data),
                    fingerprint=fingerprint,
                    without_sub=bool(fingerprint) and data.without_sub,
                )
        return is_changed

    def _take_producers(
        self,
        command: Command,
        connection: Connection,
        data: Heartbeat,
        producers: list[ProducerData],
    ) -> None:
        for producer in producers:
            member = self._member(command, connection, data)
            self._producers.heartbeat(producer.group_name, member)

    def _member(self, command: Command, connection: Connection, data: Heartbeat) -> Member:
        return Member(
            data.client_id,
            connection,
            command.language,
            command.version,
            self._clock.machine.monotonic(),
            self._clock.now_ms(),
        )

    def unregister(self, command: Command, connection: Connection) -> Command:
        """35: removes a client from its groups."""
        request = command.read(UnregisterClientRequest)
        if request.producer_group:
            self._producers.leave(request.producer_group, connection)
        if request.consumer_group:
            self._consumers.leave(request.consumer_group, connection)
        return Command(ResponseCode.SUCCESS, header=NoFields())

    def consumer_list(self, command: Command, _: Connection) -> Command:
        """38: the client ids of a group's members."""
        request = command.read(ConsumerListRequest)
        group = self._consumers.get(request.consumer_group)
        if group is None:
            raise response_error(
                ResponseCode.SYSTEM_ERROR, f"no consumer for this group, {request.consumer_group}"
            )
        ids = [member.client_id for member in group.members.values()]
        return Command(
            ResponseCode.SUCCESS,
            header=NoFields(),
            body=ConsumerIdList(consumer_id_list=ids).encode(),
        )

    def check_client_config(self, command: Command, connection: Connection) -> Reply:
        """46: whether the subscription in the body can be served."""
        subscription = CheckClientConfigBody.of_request(command.body).subscription_data
        kind, text = subscription.expression_type, subscription.sub_string
        if self._selections.selection_now(kind, text, sql_enabled=self._sql_enabled.now) is None:
            connection.hold_reading(Hold.WORK_SHARE)
            return self._check_in_turn(kind, text, connection)
        return Command(ResponseCode.SUCCESS)

    async def _check_in_turn(
        self, expression_type: str | None, text: str, connection: Connection
    ) -> Command:
        try:
            await self._selections.selection_in_turn(
                expression_type, text, sql_enabled=self._sql_enabled.now
            )
            return Command(ResponseCode.SUCCESS)
        finally:
            connection.release_reading(Hold.WORK_SHARE)

    def consumer_connections(self, command: Command, _: Connection) -> Command:
        """203: the connections of a group's consumers, with its subscriptions."""
        request = command.read(ConsumerConnectionsRequest)
        group = self._consumers.get(request.consumer_group)
        if group is None:
            raise response_error(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{request.consumer_group}] not online",
            )
        body = ConsumerConnection(
            connection_set=[member.describe() for member in group.members.values()],
            subscription_table=dict(group.subscriptions),
            consume_type=group.data.consume_type,
            message_model=group.data.message_model,
            consume_from_where=group.data.consume_from_where,
            subscription_conflict=group.conflict() or None,
        )
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def producer_connections(self, command: Command, _: Connection) -> Command:
        """204: the connections of a group's producers."""
        request = command.read(ProducerConnectionsRequest)
        members = self._producers.members(request.producer_group)
        if not members:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"the producer group[{request.producer_group}] not exist",
            )
        body = ProducerConnection(connection_set=[member.describe() for member in members])
        return Command(ResponseCode.SUCCESS, body=body.encode())

    async def all_producers(self, _: Command, __: Connection) -> Command:
        """328: the connections of all producers."""
        table = {
            group: [
                ProducerInfo(
                    client_id=member.client_id,
                    remote_ip=f"/{member.connection.remote_address}",  # as Java writes addresses
                    language=member.language_name,
                    version=member.version,
                    last_update_timestamp=member.seen_ms,
                )
                for member in members
            ]
            for group, members in self._producers
        }
        body = ProducerTableInfo(data=table)
        return Command(ResponseCode.SUCCESS, body=await encoded_in_slices(self._clock, body))
