"""PocketMQ's bulk append, 31001: many ready-made records in one request.

The sender has encoded the records as they are stored, all with IPv4 hosts; what only the broker
knows is filled in for all of them at once: queue offsets, positions, store time and store host.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any, NamedTuple
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
from pocketmq.protocol.errors import ContentError, OperatingError, ResponseError, response_error
from pocketmq.protocol.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.properties import PROPERTIES_SIZE_MAX
from pocketmq.protocol.records import (
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    STORE_TIMESTAMP_AT_V4,
    SYS_FLAG_AT,
    TOPIC_SIZE_V1_MAX,
)
from pocketmq.protocol.requests.sending import BulkAppendRequest, BulkAppendResponse
from pocketmq.transport.connection import Connection, Handler

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_SIZE = struct.Struct(">I")
_MAGIC_AT = 4
_BODY_SIZE_AT = 84
_BODY_AT = _BODY_SIZE_AT + 4
_HEAD = [("magic", ">u4"), ("crc", ">u4"), ("queue_id", ">i4")]
"""What follows a record's size."""
_PLACE = ">i8,>i8"
"""Queue offset and physical offset stand side by side, as do store time and store host."""

_TAGS_MARK = b"TAGS\x01"


class Layout(NamedTuple):
    """Where the records of a bulk body begin, how long they are, and their tags codes."""

    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    codes: list[int] | None


class BulkHandlers:
    """Appends ready-made records.

    Args:
        topics, store: of the broker.
        store_host: the broker's encoded IPv4 address.
        body_size_max: bytes of one message's body.
        permission: of the whole broker; this and `body_size_max` may be changed at any time.
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
        self._store_host, self.body_size_max = store_host, body_size_max
        self.permission = permission

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
        if not self.permission & flags.PERM_WRITE:
            raise no_permission(f"the broker's brokerPermission is {self.permission}")
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)
        if not 0 <= request.queue_id < topic.queue_nums_max:
            raise queue_illegal(request.queue_id, topic, "write", connection.remote_address)
        if len(self._store_host) != IPV4_HOST_SIZE:
            raise unavailable("bulk appends need a broker with an IPv4 address: set brokerIP1")
        layout = check_bulk(command.body, request, self.body_size_max)
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
        starts = layout.starts
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

    All records are checked together, one property after the other: this is where most of a bulk
    append's time goes.

    Args:
        body: records back to back.
        request: which queue they are for, and how many are announced.
        body_size_max: bytes of one message's body.

    Raises:
        ContentError: a record is not what it should be; none of them may be stored.
        ResponseError: 13, a message is larger than the broker takes.
    """
    import numpy as np  # see `BulkHandlers._place`

    topic = request.topic.encode()
    if len(topic) > TOPIC_SIZE_V1_MAX:
        raise _illegal(f"a bulk append cannot go to a topic named with over {TOPIC_SIZE_V1_MAX} "
                       f"characters")  # fmt: skip
    bounds = _bounds(body, request)
    starts, ends = bounds[:-1], bounds[1:]

    def fields(kind: npt.DTypeLike, at: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """What stands at these places, however odd they are."""
        size = np.dtype(kind).itemsize
        everywhere: npt.NDArray[Any] = np.ndarray((len(body) - size + 1,), kind, body, strides=(1,))
        found: npt.NDArray[Any] = everywhere[at]
        return found

    def refuse(wrong: npt.NDArray[np.bool_], error: Callable[[int], Exception]) -> None:
        if wrong.any():
            raise error(int(np.argmax(wrong)))

    def unsound(index: int) -> ContentError:
        return ContentError(
            f"the record at byte {starts[index]} of the bulk body is no sound record of "
            f"{request.topic} queue {request.queue_id}"
        )

    head = fields(_HEAD, starts + _MAGIC_AT)
    body_sizes = fields(">i4", starts + _BODY_SIZE_AT).astype(np.int64)
    topic_mark = np.frombuffer(bytes((len(topic),)) + topic, np.uint8)
    topic_at = starts + _BODY_AT + body_sizes
    properties_at = topic_at + len(topic_mark) + 2
    wrong = (head["magic"] != MAGIC_V1) | (head["queue_id"] != request.queue_id)
    wrong |= fields(">u4", starts + SYS_FLAG_AT) != 0
    wrong |= (body_sizes <= 0) | (properties_at > ends)
    refuse(wrong, unsound)  # before anything behind a body is looked at
    lengths = fields(">u2", properties_at - 2)
    topics = fields(f"V{len(topic_mark)}", topic_at).view(np.uint8).reshape(-1, len(topic_mark))
    wrong = (topics != topic_mark).any(axis=1) | (properties_at + lengths != ends)
    refuse(wrong, unsound)
    refuse(
        body_sizes > body_size_max,
        lambda index: _illegal(
            f"the body of message {index} has {body_sizes[index]} bytes, the limit maxMessageSize "
            f"of this broker is {body_size_max}"
        ),
    )
    refuse(
        lengths > PROPERTIES_SIZE_MAX,
        lambda index: _illegal(
            f"the properties of message {index} have {lengths[index]} bytes, the limit is "
            f"{PROPERTIES_SIZE_MAX}"
        ),
    )
    view = memoryview(body)
    pairs = zip((starts + _BODY_AT).tolist(), topic_at.tolist(), strict=True)
    crcs = np.array([crc32(view[at:end]) for at, end in pairs], np.uint32)
    refuse(
        crcs & 0x7FFFFFFF != head["crc"],
        lambda index: ContentError(f"the CRC of the record at byte {starts[index]} is wrong"),
    )
    codes = None
    has_tags = _TAGS_MARK in body
    if has_tags or not body.isascii():
        pairs = zip(properties_at.tolist(), ends.tolist(), strict=True)
        properties = [body[at:end] for at, end in pairs]
        _check_text(properties)
        if has_tags:
            codes = [encoded_tags_code(p) for p in properties]
    return Layout(starts, ends - starts, codes)


def _bounds(body: bytes, request: BulkAppendRequest) -> npt.NDArray[np.int64]:
    """Where the records begin, and last where they end."""
    import numpy as np  # see `BulkHandlers._place`

    position, end, bounds = 0, len(body), [0]
    read_size, note = _SIZE.unpack_from, bounds.append
    while position + RECORD_SIZE_MIN <= end:
        (size,) = read_size(body, position)
        if size < RECORD_SIZE_MIN:
            raise ContentError(
                f"the record at byte {position} of the bulk body is no sound record of "
                f"{request.topic} queue {request.queue_id}: it announces {size} bytes"
            )
        position += size
        note(position)
    if position != end:
        start = position if position < end else bounds[-2]
        raise ContentError(f"the bulk body ends inside the record at byte {start}")
    if len(bounds) != request.count + 1 or not request.count:
        raise ContentError(f"{request.count} records are announced, {len(bounds) - 1} came")
    return np.array(bounds, dtype=np.int64)


def _check_text(properties: list[bytes]) -> None:
    """All at once; the separator between them keeps a cut-off character from being completed."""
    try:
        b"\n".join(properties).decode()
    except UnicodeDecodeError as e:
        ends = accumulate(len(text) + 1 for text in properties)
        index = next(index for index, end in enumerate(ends) if e.start < end)
        raise ContentError(f"the properties of message {index} are no UTF-8") from e


def _illegal(remark: str) -> ResponseError:
    return response_error(ResponseCode.MESSAGE_ILLEGAL, remark)
