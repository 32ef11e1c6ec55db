"""A stored record taken apart and put together again, for messages that the broker re-appends."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.readable_log import Slice
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.protocol.messages.records import BORN_HOST_AT, MAGIC_V1, check_record, encode_record

_HEAD = struct.Struct(">IIIiiqqiq")
_LONG = struct.Struct(">q")
_TAIL = struct.Struct(">iqi")
_SHORT = struct.Struct(">H")
assert _HEAD.size == BORN_HOST_AT


class StoredMessage(NamedTuple):
    """The fields of a record: hosts and properties encoded, the body as its sender packed it.

    Attributes:
        size: bytes of the record.
        reconsume_times: how often a group had the message already.
        queue_offset, store_timestamp: where and when (milliseconds) the record was stored.
        prepared_transaction_offset: see `store.log.tags`.
    """

    size: int
    topic: str
    flag: int
    physical_offset: int
    sys_flag: int
    born_timestamp: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    body: bytes
    properties: bytes
    queue_offset: int
    store_timestamp: int
    prepared_transaction_offset: int

    @property
    def text(self) -> str:
        """The encoded properties as text; bytes that are no UTF-8 come through as surrogates."""
        return self.properties.decode("utf-8", "surrogateescape")

    def with_changes(self, changes: Mapping[str, str | None]) -> StoredMessage:
        """The message with some properties set anew; None takes one away."""
        return self._replace(properties=encode_text(with_properties(self.text, changes)))

    def record_for(
        self, queue_log: QueueLog, store_timestamp: int, prepared_transaction_offset: int = 0
    ) -> bytes:
        """The message as the next record of a log.

        Args:
            queue_log: of the topic and queue that it is to be in.
            store_timestamp: milliseconds since the epoch.
            prepared_transaction_offset: for a record of the schedule, the timer or the half topic,
                see `store.log.tags`.

        Raises:
            struct.error: a number does not fit.
        """
        moved = self._replace(
            topic=queue_log.topic,
            queue_offset=queue_log.next_offset,
            physical_offset=queue_log.next_physical_offset,
            store_timestamp=store_timestamp,
            prepared_transaction_offset=prepared_transaction_offset,
        )
        return moved.record(queue_log.queue_id)

    def record(self, queue_id: int) -> bytes:
        """The message as a record of a queue.

        Raises:
            struct.error: a number does not fit.
        """
        return encode_record(
            topic=self.topic.encode(),
            queue_id=queue_id,
            flag=self.flag,
            queue_offset=self.queue_offset,
            physical_offset=self.physical_offset,
            sys_flag=self.sys_flag,
            born_timestamp=self.born_timestamp,
            born_host=self.born_host,
            store_timestamp=self.store_timestamp,
            store_host=self.store_host,
            reconsume_times=self.reconsume_times,
            prepared_transaction_offset=self.prepared_transaction_offset,
            body=self.body,
            properties=self.properties,
        )


def new_message(
    born_timestamp: int,
    born_host: bytes,
    store_host: bytes,
    body: bytes,
    properties: bytes,
    flag: int = 0,
) -> StoredMessage:
    """A message that the broker makes itself; its place is set by `StoredMessage.record_for`."""
    return StoredMessage(
        0, "", flag, 0, 0, born_timestamp, born_host, store_host, 0, body, properties, 0, 0, 0
    )


def encode_text(text: str) -> bytes:
    """Encoded properties as bytes: what `StoredMessage.text` has made text of."""
    return text.encode("utf-8", "surrogateescape")


def read_stored(data: bytes, position: int = 0) -> StoredMessage:
    """Decodes the record at a position, which must be a sound one."""
    (
        size, magic, _, _, flag, queue_offset, physical_offset, sys_flag, born_timestamp,
    ) = _HEAD.unpack_from(data, position)  # fmt: skip
    at = position + BORN_HOST_AT
    born_host_size = IPV6_HOST_SIZE if sys_flag & flags.BORN_HOST_V6 else IPV4_HOST_SIZE
    born_host = data[at : at + born_host_size]
    at += born_host_size
    (store_timestamp,) = _LONG.unpack_from(data, at)
    at += _LONG.size
    store_host_size = IPV6_HOST_SIZE if sys_flag & flags.STORE_HOST_V6 else IPV4_HOST_SIZE
    store_host = data[at : at + store_host_size]
    at += store_host_size
    reconsume_times, prepared, body_size = _TAIL.unpack_from(data, at)
    at += _TAIL.size
    body = data[at : at + body_size]
    at += body_size
    if magic == MAGIC_V1:
        topic_size = data[at]
        at += 1
    else:
        (topic_size,) = _SHORT.unpack_from(data, at)
        at += 2
    topic = data[at : at + topic_size].decode("utf-8", "replace")
    at += topic_size + _SHORT.size
    return StoredMessage(
        size, topic, flag, physical_offset, sys_flag, born_timestamp, born_host, store_host,
        reconsume_times, body, data[at : position + size], queue_offset, store_timestamp, prepared,
    )  # fmt: skip


def stored_in(part: Slice, first_offset: int) -> Iterator[StoredMessage]:
    """Yields the messages of a read up to the first damaged one.

    Args:
        part: what was read of one queue, without a filter.
        first_offset: queue offset of the first message.
    """
    position = 0
    for offset in range(first_offset, part.next_offset):
        if not check_record(part.data, position, len(part.data)):
            return
        message = read_stored(part.data, position)
        if message.queue_offset != offset:
            return
        position += message.size
        yield message


def with_properties(text: str, changes: Mapping[str, str | None]) -> str:
    """Encoded properties with some set anew; None takes one away."""
    known: dict[str, str | None] = {**props.decode(text), **changes}
    return "".join([f"{name}\x01{value}\x02" for name, value in known.items() if value is not None])
