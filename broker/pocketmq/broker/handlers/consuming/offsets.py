"""Offsets of queues and groups, and messages by id: 14, 15, 29 to 33."""

from __future__ import annotations

from pocketmq.broker.groups.groups import GroupTable
from pocketmq.broker.groups.offsets import ConsumerOffsets, is_offset
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.requests.offsets import (
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
    ViewMessageRequest,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import NoFields
from pocketmq.transport.connection import Connection, Handler


class OffsetHandlers:
    """Answers with the first and last offsets of queues, groups' offsets, and single messages."""

    def __init__(
        self, topics: TopicTable, groups: GroupTable, offsets: ConsumerOffsets, store: MessageStore
    ) -> None:
        self._topics, self._groups = topics, groups
        self._offsets, self._store = offsets, store

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.query_consumer_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.update_consumer_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.search_offset,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_store_time,
            RequestCode.VIEW_MESSAGE_BY_ID: self.view_message,
        }

    def _log(self, topic: str, queue_id: int) -> QueueLog | None:
        return self._store.find_log(topic, queue_id)

    def query_consumer_offset(self, command: Command, _: Connection) -> Command:
        """14. A group that never committed starts at 0 while the queue still has all it ever had.

        That is RocketMQ's rule as long as the queue's data is in memory; here it holds for queues
        that have lost nothing to retention.
        """
        request = command.read(QueryConsumerOffsetRequest)
        offset = self._offsets.get(request.consumer_group, request.topic, request.queue_id)
        if offset is None and request.set_zero_if_not_found is not False:
            queue_log = self._log(request.topic, request.queue_id)
            if queue_log is None or queue_log.min_offset == 0:
                offset = 0
        if offset is None:
            raise response_error(
                ResponseCode.QUERY_NOT_FOUND,
                "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
            )
        return Command(ResponseCode.SUCCESS, header=OffsetResponse(offset=offset))

    def update_consumer_offset(self, command: Command, _: Connection) -> Command:
        """15: commits a group's offset."""
        request = command.read(UpdateConsumerOffsetRequest)
        if self._groups.get(request.consumer_group) is None:
            raise response_error(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"Group {request.consumer_group} not exist! Its members make it with their "
                f"heartbeats; it can be created with `pocketmq group create "
                f"{request.consumer_group}` or mqadmin updateSubGroup",
            )
        if request.topic not in self._topics:
            raise response_error(
                ResponseCode.TOPIC_NOT_EXIST,
                f"Topic {request.topic} not exist! It can be created with `pocketmq topic create "
                f"{request.topic}` or mqadmin updateTopic",
            )
        if not is_offset(request.queue_id, request.commit_offset):
            raise response_error(
                ResponseCode.INVALID_PARAMETER,
                f"there is no offset {request.commit_offset} in queue {request.queue_id} of any "
                f"topic",
            )
        taken = self._offsets.commit(
            request.consumer_group, request.topic, request.queue_id, request.commit_offset
        )
        remark = None if taken else "Offset has been previously reset"
        return Command(ResponseCode.SUCCESS, remark=remark, header=NoFields())

    def search_offset(self, command: Command, _: Connection) -> Command:
        """29: LOWER is the first message not before the time, UPPER the last one not after it."""
        request = command.read(SearchOffsetRequest)
        queue_log = self._log(request.topic, request.queue_id)
        offset = 0
        if queue_log is not None:
            upper = (request.boundary_type or "").upper() == "UPPER"
            offset = queue_log.offset_at_time(request.timestamp, upper=upper)
        return Command(ResponseCode.SUCCESS, header=OffsetResponse(offset=offset))

    def max_offset(self, command: Command, _: Connection) -> Command:
        """30; 0 for a queue without messages, as for an unknown one."""
        request = command.read(MaxOffsetRequest)
        queue_log = self._log(request.topic, request.queue_id)
        offset = 0 if queue_log is None else queue_log.max_offset
        return Command(ResponseCode.SUCCESS, header=OffsetResponse(offset=offset))

    def min_offset(self, command: Command, _: Connection) -> Command:
        """31: the first offset of a queue."""
        request = command.read(MinOffsetRequest)
        queue_log = self._log(request.topic, request.queue_id)
        offset = 0 if queue_log is None else queue_log.min_offset
        return Command(ResponseCode.SUCCESS, header=OffsetResponse(offset=offset))

    def earliest_store_time(self, command: Command, _: Connection) -> Command:
        """32; -1 for a queue without messages."""
        request = command.read(EarliestStoreTimeRequest)
        queue_log = self._log(request.topic, request.queue_id)
        timestamp = -1
        if queue_log is not None and queue_log.min_offset < queue_log.max_offset:
            timestamp = queue_log.timestamp_at(queue_log.min_offset)
        return Command(ResponseCode.SUCCESS, header=TimestampResponse(timestamp=timestamp))

    def view_message(self, command: Command, _: Connection) -> Command:
        """33: the message at a physical offset."""
        request = command.read(ViewMessageRequest)
        record = self._store.read_physical(request.offset)
        if not record:
            raise response_error(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {request.offset}"
            )
        return Command(ResponseCode.SUCCESS, body=record)
