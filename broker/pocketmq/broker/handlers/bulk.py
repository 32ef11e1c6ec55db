"""PocketMQ's bulk append, 31001: many ready-made records in one request.

The sender has encoded the records as they are stored, all with IPv4 hosts; what only the broker
knows is filled in for all of them at once: queue offsets, positions, store time and store host.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from pocketmq.broker.refusals import (
    no_permission,
    queue_illegal,
    store_failure,
    topic_missing,
    unavailable,
)
from pocketmq.broker.store.errors import StoreError
from pocketmq.broker.store.queue_log import QueueLog, Waiter
from pocketmq.broker.store.segment import ENTRY_SIZE, POSITION_MASK, physical_offset
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.store.tags import encoded_tags_code
from pocketmq.broker.topics import TopicTable
from pocketmq.protocol import flags, names
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.command import Command
from pocketmq.protocol.errors import ContentError, OperatingError
from pocketmq.protocol.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.properties import PROPERTIES_SIZE_MAX
from pocketmq.protocol.records import (
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    STORE_TIMESTAMP_AT_V4,
)
from pocketmq.protocol.requests.sending import BulkAppendRequest, BulkAppendResponse
from pocketmq.transport.connection import Connection, Handler

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_HEAD = struct.Struct(">IIIi")
_INT = struct.Struct(">i")
_BODY_SIZE_AT = 84
_BODY_AT = _BODY_SIZE_AT + 4
_SYS_FLAG_AT = 36
_PLACE = ">i8,>i8"
"""Queue offset and physical offset stand side by side, as do store time and store host."""

_TAGS_MARK = b"TAGS\x01"


class Layout(NamedTuple):
    """Where the records of a bulk body begin, how long they are, and their tags codes."""

    starts: list[int]
    sizes: list[int]
    codes: list[int] | None


class BulkHandlers:
    """Appends ready-made records.

    Args:
        topics, store: of the broker.
        store_host: the broker's encoded IPv4 address.
        body_size_max: bytes of one message's body.
        permission: of the whole broker.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        store_host: bytes,
        body_size_max: int,
        permission: int,
    ) -> None:
        self._topics, self._store = topics, store
        self._store_host, self._body_size_max = store_host, body_size_max
        self._permission = permission

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.BULK_APPEND: self.append}

    def append(self, command: Command, connection: Connection) -> None:
        """31001: all records are stored, one after the other, or none."""
        request = command.read(BulkAppendRequest)
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        if request.topic in names.SEND_FORBIDDEN_TOPICS:
            raise no_permission(f"Sending message to topic[{request.topic}] is forbidden.")
        if not self._permission & flags.PERM_WRITE:
            raise no_permission(f"the broker's brokerPermission is {self._permission}")
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)
        if not 0 <= request.queue_id < topic.queue_nums_max:
            raise queue_illegal(request.queue_id, topic, "write", connection.remote_address)
        if len(self._store_host) != IPV4_HOST_SIZE:
            raise unavailable("bulk appends need a broker with an IPv4 address: set brokerIP1")
        layout = check_bulk(command.body, request, self._body_size_max)
        try:
            queue_log = self._store.queue_log(request.topic, request.queue_id)
        except StoreError as e:
            raise unavailable(str(e)) from e
        first = queue_log.next_offset
        count = len(layout.starts)
        records, entries = self._place(command.body, layout, queue_log)

        def stored(error: OperatingError | None) -> None:
            if error is None:
                header = BulkAppendResponse(queue_offset=first, count=count)
                connection.respond(command, Command(ResponseCode.SUCCESS, header=header))
            else:
                connection.refuse(command, *store_failure(error))

        queue_log.append_many(records, entries, count, Waiter(stored, True))
        self._store.touch(queue_log)

    def _place(self, body: bytes, layout: Layout, queue_log: QueueLog) -> tuple[bytes, bytes]:
        """The records with their places filled in, and their index entries."""
        import numpy as np  # only bulk appends need it, and it would slow down every start

        count = len(layout.starts)
        data: npt.NDArray[np.uint8] = np.frombuffer(bytearray(body), dtype=np.uint8)
        starts = np.array(layout.starts, dtype=np.int64)
        # As `physical_offset` does it for one record.
        physical = physical_offset(queue_log.number, 0) + (
            queue_log.next_position + starts & POSITION_MASK
        )
        place = np.empty((count, 2), dtype=">i8")
        place[:, 0] = np.arange(queue_log.next_offset, queue_log.next_offset + count)
        place[:, 1] = physical
        bytes_16 = np.arange(16)
        data[(starts + QUEUE_OFFSET_AT)[:, None] + bytes_16] = place.view(np.uint8)
        stamp = self._store.store_time(queue_log).to_bytes(8, "big") + self._store_host
        data[(starts + STORE_TIMESTAMP_AT_V4)[:, None] + bytes_16] = np.frombuffer(stamp, np.uint8)
        entries = np.zeros(count, dtype=[("place", ">i8"), ("size", ">i4"), ("code", ">i8")])
        assert entries.itemsize == ENTRY_SIZE
        entries["place"] = physical
        entries["size"] = layout.sizes
        if layout.codes is not None:
            entries["code"] = layout.codes
        return data.tobytes(), entries.tobytes()


def check_bulk(body: bytes, request: BulkAppendRequest, body_size_max: int) -> Layout:
    """Checks each record of a bulk body: what is stored must be sound, whoever made it.

    Raises:
        ContentError: a record is not what it should be; none of them may be stored.
    """
    topic = request.topic.encode()
    topic_mark = bytes((len(topic),)) + topic
    starts, sizes = [], []
    position, end = 0, len(body)
    view = memoryview(body)
    is_ascii = body.isascii()  # then its properties are UTF-8, too
    no_flags = b"\0\0\0\0"
    while position < end:
        try:
            total, magic, crc, queue_id = _HEAD.unpack_from(body, position)
            (body_size,) = _INT.unpack_from(body, position + _BODY_SIZE_AT)
        except struct.error as e:
            raise ContentError(f"the bulk body ends inside the record at byte {position}") from e
        body_at = position + _BODY_AT
        topic_at = body_at + body_size
        properties_at = topic_at + len(topic_mark)
        record_end = position + total
        properties_size = int.from_bytes(body[properties_at : properties_at + 2], "big")
        if (
            magic != MAGIC_V1
            or queue_id != request.queue_id
            or not 0 < body_size <= body_size_max
            or record_end > end
            or body[position + _SYS_FLAG_AT : position + _SYS_FLAG_AT + 4] != no_flags
            or body[topic_at:properties_at] != topic_mark
            or properties_at + 2 + properties_size != record_end
            or properties_size > PROPERTIES_SIZE_MAX
        ):  # fmt: skip
            raise ContentError(
                f"the record at byte {position} of the bulk body is no sound record of "
                f"{request.topic} queue {request.queue_id}"
            )
        if crc32(view[body_at:topic_at]) & 0x7FFFFFFF != crc:
            raise ContentError(f"the CRC of the record at byte {position} is wrong")
        if not is_ascii:
            try:
                body[properties_at + 2 : record_end].decode()
            except UnicodeDecodeError as e:
                raise ContentError(
                    f"the properties of the record at byte {position} are no UTF-8"
                ) from e
        starts.append(position)
        sizes.append(total)
        position = record_end
    if len(starts) != request.count or not starts:
        raise ContentError(f"{request.count} records are announced, {len(starts)} came")
    codes = None
    if _TAGS_MARK in body:
        codes = [_code_of(body, s, z) for s, z in zip(starts, sizes, strict=True)]
    return Layout(starts, sizes, codes)


def _code_of(body: bytes, start: int, size: int) -> int:
    (body_size,) = _INT.unpack_from(body, start + _BODY_SIZE_AT)
    topic_at = start + _BODY_AT + body_size
    return encoded_tags_code(body[topic_at + 1 + body[topic_at] + 2 : start + size])
