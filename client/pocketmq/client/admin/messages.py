"""Administration of messages: finding them by id, time or key, and their traces."""

from __future__ import annotations

import asyncio
from typing import Literal

from pocketmq.client.admin.calls import AdminCalls
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries
from pocketmq.protocol.errors import ContentError, NotFoundError, UsageError
from pocketmq.protocol.messages.ids import parse_offset_msg_id
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.messages.trace import TraceRecord, decode_trace
from pocketmq.protocol.names.names import TRACE_TOPIC
from pocketmq.protocol.requests.offsets import ViewMessageRequest
from pocketmq.protocol.requests.queries import (
    KEY,
    TAG,
    UNIQUE_KEY,
    QueryConsumeQueueRequest,
    QueryMessageRequest,
)

QUERY_COUNT_MAX = 64
"""Messages that a broker gives for one key (maxMsgsNumBatch)."""

FOREVER_MS = 2**63 - 1

IndexName = Literal["key", "unique_key", "tag"]
_INDEX_TYPES: dict[IndexName, str] = {"key": KEY, "unique_key": UNIQUE_KEY, "tag": TAG}


class MessageAdmin(AdminCalls):
    """The methods of `Admin` for messages."""

    async def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """Returns the message at the address that an offset message id carries.

        A compressed body that cannot be unpacked comes as it is stored.

        Raises:
            UsageError: it is no offset message id.
            ResponseError: nothing is stored there.
        """
        address = parse_offset_msg_id(offset_msg_id)
        request = ViewMessageRequest(offset=address.physical_offset)
        answer = await self._ask(address.store_host, request)
        return next(decode_records(answer.body, on_damaged=_as_stored))

    async def queue_entries(
        self, queue: MessageQueue, offset: int, count: int = 1
    ) -> ConsumeQueueEntries:
        """Returns index entries of a queue, with the ends of the queue.

        Args:
            queue: which.
            offset: of the first entry; there are no entries if the queue does not hold it.
            count: how many entries.

        Raises:
            RouteError: there is no such queue, or its broker is not there.
        """
        request = QueryConsumeQueueRequest(
            topic=queue.topic, queue_id=queue.queue_id, index=offset, count=count
        )
        address = await self._instance.routes.master_of(queue)
        answer = await self._ask(address, request)
        if answer.body:
            return ConsumeQueueEntries.decode(answer.body)
        # Apache's brokers say nothing of an offset that the queue does not hold.
        return ConsumeQueueEntries(
            min_queue_index=await self._offsets.min(queue),
            max_queue_index=await self._offsets.max(queue),
        )

    async def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage | None:
        """Returns the message at an offset of a queue; None if the queue does not hold it.

        A compressed body that cannot be unpacked comes as it is stored.

        Raises:
            RouteError: there is no such queue, or its broker is not there.
        """
        entries = (await self.queue_entries(queue, offset)).queue_data
        if not entries:
            return None
        request = ViewMessageRequest(offset=entries[0].physic_offset)
        answer = await self._ask(await self._instance.routes.master_of(queue), request)
        return next(decode_records(answer.body, queue.broker_name, on_damaged=_as_stored))

    async def query_messages(
        self,
        topic: str,
        key: str,
        *,
        index: IndexName = "key",
        count_max: int = QUERY_COUNT_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """Returns the newest messages of a topic that have a key, in order of storage.

        A compressed body that cannot be unpacked comes as it is stored. Apache's brokers index what
        they have stored a moment later.

        Args:
            topic: its name.
            key: one of the keys, the id that the sending client gave, or the tags as a whole.
            index: which of these; by tags only brokers from RocketMQ 5.5 on find messages.
            count_max: how many messages, the newest; of each broker at most 64.
            begin_ms, end_ms: stored between these times, both included; milliseconds since the
                epoch.

        Raises:
            UnknownTopicError: no broker has the topic.
            UsageError: the key is empty.
        """
        if not key:
            raise UsageError("an empty key finds nothing: give one of the messages' keys")
        request = QueryMessageRequest(
            topic=topic,
            key=key,
            max_num=min(count_max, QUERY_COUNT_MAX),
            begin_timestamp=begin_ms,
            end_timestamp=end_ms,
            index_type=_INDEX_TYPES[index],
            unique_key_query="true" if index == "unique_key" else None,
        )
        masters = await self._named_topic_masters(topic)
        parts = await asyncio.gather(*(self._query(*named, request) for named in masters.items()))
        found = [m for part in parts for m in part if _has_key(m, topic, key, index)]
        found.sort(key=lambda m: m.store_timestamp)
        return found[max(len(found) - count_max, 0) :]

    async def _query(
        self, broker_name: str, address: str, request: QueryMessageRequest
    ) -> list[ReceivedMessage]:
        try:
            answer = await self._ask(address, request)
        except NotFoundError:
            return []
        return list(decode_records(answer.body, broker_name, on_damaged=_as_stored))

    async def message_by_unique_key(
        self, topic: str, msg_id: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> ReceivedMessage | None:
        """Returns the message with the id that its sender gave it; None if there is none.

        Args:
            topic, begin_ms, end_ms: as of `query_messages`.
            msg_id: ``SendResult.msg_id``. Sent again by a retry it is there twice: the first one
                is given.

        Raises:
            UnknownTopicError: no broker has the topic.
        """
        found = await self.query_messages(
            topic, msg_id, index="unique_key", begin_ms=begin_ms, end_ms=end_ms
        )
        return found[0] if found else None

    async def message_trace(
        self,
        msg_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[TraceRecord]:
        """Returns the traces of a message: who sent it, who consumed it, and how.

        Args:
            msg_id: the id that its sender's client gave it.
            trace_topic: where those clients write their traces.
            begin_ms, end_ms: written between these times.

        Raises:
            UnknownTopicError: there is no such trace topic.
            ContentError: what was found cannot be read.
        """
        found = await self.query_messages(trace_topic, msg_id, begin_ms=begin_ms, end_ms=end_ms)
        records = [
            r for message in found for r in decode_trace(message.body.decode("utf-8", "replace"))
        ]
        return [record for record in records if record.msg_id == msg_id]

    async def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset of a queue stored at that time or later."""
        return await self._offsets.at_time(queue, timestamp_ms)


def _as_stored(_: ReceivedMessage, __: ContentError) -> None:
    """Lets a message whose body cannot be unpacked pass as it is stored."""


def _has_key(message: ReceivedMessage, topic: str, key: str, index: IndexName) -> bool:
    """Whether a message really has the key: RocketMQ's brokers compare hashes only."""
    if message.topic != topic:
        return False
    if index == "tag":
        return message.tags == key
    return key == message.unique_key or (index == "key" and key in message.keys)
