"""Messages by key, 12 (`QueryMessageProcessor`); index entries, 321 (`AdminBrokerProcessor`)."""

from __future__ import annotations

from pocketmq.broker.groups.clients import ConsumerTable
from pocketmq.broker.store.keys.key_search import KeySearch, Query
from pocketmq.broker.store.keys.message_keys import IndexType
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries, ConsumeQueueEntry
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.requests.queries import (
    QueryConsumeQueueRequest,
    QueryMessageRequest,
    QueryMessageResponse,
)
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

QUERY_COUNT_MAX = 64
"""Messages of one answer (RocketMQ's maxMsgsNumBatch)."""

UNIQUE_KEY_COUNT = 32
"""Messages of an answer to a unique key, whatever is asked for (defaultQueryMaxNum)."""

QUERY_SIZE_MAX = 15 * 1024 * 1024
"""Bytes of one answer, so that it fits into a client's frame; the newest messages are kept."""

ENTRIES_MAX = 65_536
"""Index entries of one answer."""


class QueryHandlers:
    """Finds messages by key, and lists the index entries of a queue.

    Args:
        store: of the broker.
        search: finds messages by key.
        consumers: their filters are shown with a queue's index.
    """

    def __init__(self, store: MessageStore, search: KeySearch, consumers: ConsumerTable) -> None:
        self._store, self._search, self._consumers = store, search, consumers

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {
            RequestCode.QUERY_MESSAGE: self.query_message,
            RequestCode.QUERY_CONSUME_QUEUE: self.query_consume_queue,
        }

    async def query_message(self, command: Command, _: Connection) -> Command:
        """12: keys are compared in full here; RocketMQ's answers may hold others of equal hash."""
        request = command.read(QueryMessageRequest)
        found = await self._search.find(_query_of(request))
        records: list[bytes] = []
        size = 0
        for queue_log, match in reversed(found):
            size += match.size
            if records and size > QUERY_SIZE_MAX:
                break
            if match.offset >= queue_log.min_offset:
                records.append(queue_log.read_with_entries(match.offset, 1, 0)[0])
        if not records:
            return Command(
                ResponseCode.QUERY_NOT_FOUND,
                remark="can not find message, maybe time range not correct",
                header=QueryMessageResponse(),
            )
        timestamp, physical = self._searched_to(request.topic)
        header = QueryMessageResponse(
            index_last_update_timestamp=timestamp, index_last_update_phyoffset=physical
        )
        return Command(ResponseCode.SUCCESS, header=header, body=b"".join(reversed(records)))

    def _searched_to(self, topic: str) -> tuple[int, int]:
        """Returns store time and physical offset of the last message that the search covered."""
        return max(
            (queue_log.last_timestamp, queue_log.next_physical_offset)
            for queue_id in self._store.queue_ids(topic)
            if (queue_log := self._store.find_log(topic, queue_id)) is not None
        )

    def query_consume_queue(self, command: Command, _: Connection) -> Command:
        """321; with no entries where the index is out of range.

        RocketMQ has no body then, over which mqadmin stumbles.
        """
        request = command.read(QueryConsumeQueueRequest)
        queue = f"{request.queue_id}@{request.topic}"
        queue_log = self._store.find_log(request.topic, request.queue_id)
        if queue_log is None:
            raise response_error(ResponseCode.SYSTEM_ERROR, f"{queue} is not exist!")
        body = ConsumeQueueEntries(
            max_queue_index=queue_log.max_offset, min_queue_index=queue_log.min_offset
        )
        if request.consumer_group is not None:
            self._show_filter(body, request.consumer_group, request.topic)
        remark = None
        if queue_log.min_offset <= request.index < queue_log.max_offset:
            body.queue_data = _entries(queue_log, request.index, min(request.count, ENTRIES_MAX))
        else:
            remark = f"Index {request.index} of {queue} is not exist!"
        return Command(ResponseCode.SUCCESS, remark=remark, body=body.encode())

    def _show_filter(self, body: ConsumeQueueEntries, group: str, topic: str) -> None:
        members = self._consumers.get(group)
        subscription = None if members is None else members.subscriptions.get(topic)
        body.subscription_data = subscription
        body.filter_data = "null" if subscription else f"{group}@{topic} is not online!"


def _query_of(request: QueryMessageRequest) -> Query:
    count, index_type = request.max_num, request.index_type or IndexType.KEY.value
    if (request.unique_key_query or "").lower() == "true":
        count, index_type = UNIQUE_KEY_COUNT, IndexType.UNIQUE_KEY.value
    # RocketMQ takes whatever is not T for a key.
    is_tag = index_type == IndexType.TAG.value
    return Query(
        request.topic,
        request.key.encode("utf-8", "surrogateescape"),
        IndexType.TAG if is_tag else IndexType.KEY,
        min(count, QUERY_COUNT_MAX),
        request.begin_timestamp,
        request.end_timestamp,
    )


def _entries(queue_log: QueueLog, offset: int, count: int) -> list[ConsumeQueueEntry]:
    out: list[ConsumeQueueEntry] = []
    end = min(offset + max(count, 0), queue_log.max_offset)
    while offset < end:
        entries = queue_log.read_entries(offset, end - offset)
        for physical, size, code in ENTRY.iter_unpack(entries):
            out.append(ConsumeQueueEntry(physic_offset=physical, physic_size=size, tags_code=code))
            offset += 1
    return out
