"""Heartbeats and membership (`broker/processor/ClientManageProcessor`)."""

from __future__ import annotations

from pocketmq.broker.clients import ConsumerTable, Member, ProducerTable
from pocketmq.broker.filters import selection_of
from pocketmq.broker.groups import GroupTable
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol.bodies.clients import (
    CheckClientConfigBody,
    ConsumerConnection,
    ConsumerIdList,
    Heartbeat,
    ProducerConnection,
)
from pocketmq.protocol.bodies.groups import ProducerInfo, ProducerTableInfo
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import GroupMissingError, response_error
from pocketmq.protocol.header import NoFields
from pocketmq.protocol.names import retry_topic
from pocketmq.protocol.requests.clients import (
    ConsumerConnectionsRequest,
    ConsumerListRequest,
    HeartbeatResponse,
    ProducerConnectionsRequest,
    UnregisterClientRequest,
)
from pocketmq.transport.clock import Clock
from pocketmq.transport.connection import CLIENT_ID, Connection, Handler


class ClientHandlers:
    """Keeps the tables of living clients."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        producers: ProducerTable,
        consumers: ConsumerTable,
        clock: Clock,
        *,
        sql_enabled: bool,
    ) -> None:
        self._topics, self._groups = topics, groups
        self._producers, self._consumers = producers, consumers
        self._clock, self.sql_enabled = clock, sql_enabled

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

    def heartbeat(self, command: Command, connection: Connection) -> Command:
        """34. A heartbeat with a fingerprint (version 2) may leave the subscriptions out."""
        data = Heartbeat.decode(command.body)
        fingerprint = data.heartbeat_fingerprint
        connection.attributes[CLIENT_ID] = data.client_id

        def member() -> Member:
            return Member(
                data.client_id,
                connection,
                command.language,
                command.version,
                self._clock.monotonic(),
                self._clock.now_ms(),
            )

        is_changed = not fingerprint
        for consumer in data.consumer_data_set:
            try:
                group = self._groups.find(consumer.group_name)
            except GroupMissingError:
                continue  # its pulls are told; the client's other groups must go on
            if group.retry_queue_nums > 0:
                self._topics.create_for_group(
                    retry_topic(consumer.group_name), group.retry_queue_nums
                )
            is_changed |= self._consumers.heartbeat(
                consumer,
                member(),
                fingerprint=fingerprint,
                without_sub=bool(fingerprint) and data.without_sub,
            )
        for producer in data.producer_data_set:
            self._producers.heartbeat(producer.group_name, member())
        return Command(
            ResponseCode.SUCCESS,
            header=HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=is_changed),
        )

    def unregister(self, command: Command, connection: Connection) -> Command:
        """35."""
        request = command.read(UnregisterClientRequest)
        if request.producer_group:
            self._producers.leave(request.producer_group, connection)
        if request.consumer_group:
            self._consumers.leave(request.consumer_group, connection)
        return Command(ResponseCode.SUCCESS, header=NoFields())

    def consumer_list(self, command: Command, _: Connection) -> Command:
        """38."""
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

    def check_client_config(self, command: Command, _: Connection) -> Command:
        """46: whether the subscription in the body can be served."""
        subscription = CheckClientConfigBody.decode(command.body).subscription_data
        selection_of(
            subscription.expression_type, subscription.sub_string, sql_enabled=self.sql_enabled
        )
        return Command(ResponseCode.SUCCESS)

    def consumer_connections(self, command: Command, _: Connection) -> Command:
        """203."""
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
        """204."""
        request = command.read(ProducerConnectionsRequest)
        members = self._producers.members(request.producer_group)
        if not members:
            raise response_error(
                ResponseCode.SYSTEM_ERROR,
                f"the producer group[{request.producer_group}] not exist",
            )
        body = ProducerConnection(connection_set=[member.describe() for member in members])
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def all_producers(self, _: Command, __: Connection) -> Command:
        """328."""
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
        return Command(ResponseCode.SUCCESS, body=ProducerTableInfo(data=table).encode())
