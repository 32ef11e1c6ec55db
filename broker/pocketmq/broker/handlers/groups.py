"""Subscription groups and where they stand: 200, 201, 207, 208, 352."""

from __future__ import annotations

from pocketmq.broker.groups import GroupTable
from pocketmq.broker.offsets import ConsumerOffsets
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol import names
from pocketmq.protocol.bodies.clients import GroupConfig, GroupConfigTable
from pocketmq.protocol.bodies.topics import ConsumeStats, OffsetWrapper, QueueKey
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import IllegalNameError, response_error
from pocketmq.protocol.requests.topics import (
    ConsumeStatsRequest,
    DeleteGroupRequest,
    GroupConfigRequest,
)
from pocketmq.transport.connection import Connection, Handler


class GroupHandlers:
    """The broker's side of group administration."""

    def __init__(
        self,
        broker_name: str,
        topics: TopicTable,
        groups: GroupTable,
        offsets: ConsumerOffsets,
        store: MessageStore,
    ) -> None:
        self._broker_name = broker_name
        self._topics, self._groups = topics, groups
        self._offsets, self._store = offsets, store

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all_configs,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: self.config,
            RequestCode.GET_CONSUME_STATS: self.consume_stats,
        }

    def update(self, command: Command, _: Connection) -> Command:
        """200."""
        config = GroupConfig.decode(command.body)
        try:
            names.check_group(config.group_name)
        except IllegalNameError as e:
            raise response_error(ResponseCode.INVALID_PARAMETER, str(e)) from e
        self._groups.put(config)
        return Command(ResponseCode.SUCCESS)

    def all_configs(self, _: Command, __: Connection) -> Command:
        """201."""
        body = GroupConfigTable(
            subscription_group_table={g.group_name: g for g in self._groups},
            data_version=self._groups.version,
        )
        return Command(ResponseCode.SUCCESS, body=body.encode())

    def config(self, command: Command, _: Connection) -> Command:
        """352."""
        request = command.read(GroupConfigRequest)
        return Command(ResponseCode.SUCCESS, body=self._groups.find(request.group).encode())

    def delete(self, command: Command, _: Connection) -> Command:
        """207."""
        request = command.read(DeleteGroupRequest)
        self._groups.remove(request.group_name)
        if request.clean_offset:
            self._offsets.remove_group(request.group_name)
        return Command(ResponseCode.SUCCESS)

    def consume_stats(self, command: Command, _: Connection) -> Command:
        """208: lag is broker offset less consumer offset, queue by queue."""
        request = command.read(ConsumeStatsRequest)
        group = request.consumer_group
        topics = {request.topic} if request.topic else self._offsets.topics_of(group)
        stats = ConsumeStats()
        for name in sorted(topics):
            topic = self._topics.get(name)
            if topic is None:
                continue
            for queue_id in range(topic.read_queue_nums):
                queue_log = self._store.find_log(name, queue_id)
                high = 0 if queue_log is None else queue_log.max_offset
                offset = max(self._offsets.get(group, name, queue_id) or 0, 0)
                timestamp = 0
                if queue_log is not None and queue_log.min_offset < offset <= high:
                    timestamp = queue_log.timestamp_at(offset - 1)
                stats.offset_table[QueueKey(self._broker_name, queue_id, name)] = OffsetWrapper(
                    broker_offset=high,
                    consumer_offset=offset,
                    pull_offset=offset,
                    last_timestamp=timestamp,
                )
        return Command(ResponseCode.SUCCESS, body=stats.encode())
