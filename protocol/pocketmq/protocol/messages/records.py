"""Stored records: RocketMQ's message encoding, which is also what pulls return (wire.md §3.3).

::

     4 totalSize   4 magic   4 bodyCRC   4 queueId   4 flag   8 queueOffset   8 physicalOffset
     4 sysFlag     8 bornTimestamp       8|20 bornHost
     8 storeTimestamp                    8|20 storeHost
     4 reconsumeTimes   8 preparedTransactionOffset
     4 bodyLen body   1|2 topicLen topic   2 propsLen props
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from isal.isal_zlib import crc32

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.protocol.messages.message import ReceivedMessage

MAGIC_V1 = 0xDAA320A7
MAGIC_V2 = 0xDAA320AB
"""Written only when the topic is longer than 127 bytes: its length then has 16 bits."""

TOPIC_SIZE_V1_MAX = 127

QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_HOST_AT = 48
STORE_TIMESTAMP_AT_V4 = 56
"""Where the store time stands in a record whose born host is IPv4."""

_HEAD = struct.Struct(">IIIiiqqiq")
_STORED = struct.Struct(">q")
_TAIL = struct.Struct(">iqi")
_V4 = struct.Struct(">IIIiiqqiq8sq8siqi")
_SHORT = struct.Struct(">H")
_SIZE_MAGIC = struct.Struct(">II")
_INT = struct.Struct(">I")
assert QUEUE_OFFSET_AT + 8 == PHYSICAL_OFFSET_AT == SYS_FLAG_AT - 8
assert _HEAD.size == BORN_HOST_AT == STORE_TIMESTAMP_AT_V4 - IPV4_HOST_SIZE
assert _V4.size == 88

_FIXED_SIZE = _V4.size - 2 * IPV4_HOST_SIZE
_V6_FLAGS = flags.BORN_HOST_V6 | flags.STORE_HOST_V6

BODY_SIZE_AT_V4 = _V4.size - 4
"""Where the body's length stands in a record whose hosts are both IPv4."""

_LENGTH_BYTES = [bytes((size,)) for size in range(256)]

RECORD_SIZE_MIN = _V4.size + 1 + 2
"""A record with IPv4 hosts, no topic, no body and no properties."""


def record_parts(
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    properties: bytes,
) -> tuple[bytes, bytes, bytes, bytes, bytes, bytes]:
    """Encodes one message as it is stored, in parts; the second one is the body, not copied.

    Sends pass the arguments by position.

    Hosts are encoded addresses and decide the two IPv6 flags, whatever `sys_flag` says of them: a
    sender's flags must not make the record unreadable.
    """
    sys_flag &= ~_V6_FLAGS
    if len(born_host) == IPV6_HOST_SIZE:
        sys_flag |= flags.BORN_HOST_V6
    if len(store_host) == IPV6_HOST_SIZE:
        sys_flag |= flags.STORE_HOST_V6
    topic_size, body_size = len(topic), len(body)
    if topic_size <= TOPIC_SIZE_V1_MAX:
        magic, topic_length = MAGIC_V1, _LENGTH_BYTES[topic_size]
    else:
        magic, topic_length = MAGIC_V2, _SHORT.pack(topic_size)
    total = (
        _FIXED_SIZE + len(born_host) + len(store_host)
        + body_size + len(topic_length) + topic_size + 2 + len(properties)
    )  # fmt: skip
    crc = crc32(body) & 0x7FFFFFFF
    if not sys_flag & _V6_FLAGS:
        head = _V4.pack(
            total, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
            born_timestamp, born_host, store_timestamp, store_host, reconsume_times,
            prepared_transaction_offset, body_size,
        )  # fmt: skip
    else:
        head = b"".join(
            (
                _HEAD.pack(
                    total, magic, crc, queue_id, flag, queue_offset, physical_offset, sys_flag,
                    born_timestamp,
                ),
                born_host,
                _STORED.pack(store_timestamp),
                store_host,
                _TAIL.pack(reconsume_times, prepared_transaction_offset, body_size),
            )
        )  # fmt: skip
    return head, body, topic_length, topic, _SHORT.pack(len(properties)), properties


def encode_record(
    topic: bytes,
    queue_id: int,
    flag: int,
    queue_offset: int,
    physical_offset: int,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
    prepared_transaction_offset: int,
    body: bytes,
    properties: bytes,
) -> bytes:
    """Encodes one message as it is stored; see `record_parts`."""
    return b"".join(
        record_parts(
            topic, queue_id, flag, queue_offset, physical_offset, sys_flag, born_timestamp,
            born_host, store_timestamp, store_host, reconsume_times, prepared_transaction_offset,
            body, properties,
        )
    )  # fmt: skip


def check_record(data: bytes | memoryview, position: int, end: int) -> int:
    """Returns the size of the record at a position if it is whole and sound, else 0.

    Checked are the length, the magic, the lengths inside, and the body's CRC.
    """
    if end - position < RECORD_SIZE_MIN:
        return 0
    total, magic = _SIZE_MAGIC.unpack_from(data, position)
    if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_SIZE_MIN <= total <= end - position:
        return 0
    (sys_flag,) = _INT.unpack_from(data, position + SYS_FLAG_AT)
    at = position + body_size_at(sys_flag)
    record_end: int = position + total
    if at + 4 > record_end:
        return 0
    (body_size,) = _INT.unpack_from(data, at)
    body_end = at + 4 + body_size
    topic_length_size = 1 if magic == MAGIC_V1 else 2
    if body_end + topic_length_size > record_end:
        return 0
    topic_size = int.from_bytes(data[body_end : body_end + topic_length_size], "big")
    properties_at = body_end + topic_length_size + topic_size
    if properties_at + 2 > record_end:
        return 0
    if properties_at + 2 + _SHORT.unpack_from(data, properties_at)[0] != record_end:
        return 0
    (crc,) = _INT.unpack_from(data, position + 8)
    if crc32(data[at + 4 : body_end]) & 0x7FFFFFFF != crc:
        return 0
    return int(total)


def record_offsets(data: bytes | memoryview) -> list[int]:
    """The queue offsets of records back to back, which must be sound."""
    offsets = []
    position, end = 0, len(data)
    while position < end:
        offsets.append(_STORED.unpack_from(data, position + QUEUE_OFFSET_AT)[0])
        position += _INT.unpack_from(data, position)[0]
    return offsets


def body_size_at(sys_flag: int) -> int:
    """Returns where in a record the body's length stands: the hosts' address families decide."""
    at = BODY_SIZE_AT_V4
    if sys_flag & flags.BORN_HOST_V6:
        at += IPV6_HOST_SIZE - IPV4_HOST_SIZE
    if sys_flag & flags.STORE_HOST_V6:
        at += IPV6_HOST_SIZE - IPV4_HOST_SIZE
    return at


def store_timestamp_at(sys_flag: int) -> int:
    """Returns where in a record the store time stands."""
    v6 = sys_flag & flags.BORN_HOST_V6
    return STORE_TIMESTAMP_AT_V4 + (IPV6_HOST_SIZE - IPV4_HOST_SIZE if v6 else 0)


def read_store_timestamp(record: bytes | memoryview, position: int = 0) -> int:
    """Reads the store time, in milliseconds, of the record at a position."""
    (sys_flag,) = _INT.unpack_from(record, position + SYS_FLAG_AT)
    (timestamp,) = _STORED.unpack_from(record, position + store_timestamp_at(sys_flag))
    return int(timestamp)


def topic_and_properties(data: bytes, position: int = 0) -> tuple[bytes, bytes]:
    """Reads the encoded topic and properties of the sound record at a position."""
    (sys_flag,) = _INT.unpack_from(data, position + SYS_FLAG_AT)
    at = position + body_size_at(sys_flag)
    at += 4 + _INT.unpack_from(data, at)[0]
    (magic,) = _INT.unpack_from(data, position + 4)
    topic_at = at + (1 if magic == MAGIC_V1 else 2)
    properties_at = topic_at + int.from_bytes(data[at:topic_at], "big") + 2
    (size,) = _SHORT.unpack_from(data, properties_at - 2)
    return data[topic_at : properties_at - 2], data[properties_at : properties_at + size]


def record_properties(record: bytes) -> dict[str, str]:
    """Reads the properties of one sound record, without decoding the rest of it."""
    return props.decode(topic_and_properties(record)[1].decode())


OnDamaged = Callable[[ReceivedMessage, ContentError], object]


def decode_records(
    data: bytes,
    broker_name: str = "",
    *,
    inflate: bool = True,
    on_damaged: OnDamaged | None = None,
    added: bytes = b"",
) -> Iterator[ReceivedMessage]:
    """Decodes the messages in the body of a pull.

    Bytes of properties that are no UTF-8 are replaced, as Java does.

    Args:
        data: records back to back.
        broker_name: the broker they come from.
        inflate: unpack compressed bodies; such a message is not flagged as compressed any more
            (`MessageDecoder#decode`).
        on_damaged: called with a message whose body cannot be unpacked, which then comes as it is
            stored. One bad message must not keep a reader from all that lie behind it.
        added: encoded properties that each message gets besides its own; see `props.appended`.

    Raises:
        ContentError: a record is cut off or has an unknown magic; without `on_damaged` also, a
            body cannot be unpacked.
    """
    position, end = 0, len(data)
    while position < end:
        message = _decode(data, position, end, broker_name, added)
        if inflate and message.sys_flag & flags.COMPRESSED:
            _inflate(message, on_damaged)
        yield message
        position += message.store_size


def _inflate(message: ReceivedMessage, on_damaged: OnDamaged | None) -> None:
    try:
        message.body = decompress(message.body, message.sys_flag)
        message.sys_flag &= ~flags.COMPRESSED
    except ContentError as e:
        if on_damaged is None:
            raise
        on_damaged(message, e)


def _decode(
    data: bytes, position: int, end: int, broker_name: str, added: bytes
) -> ReceivedMessage:
    m = _new(ReceivedMessage)
    try:
        (
            total, magic, m.body_crc, m.queue_id, m.flag, m.queue_offset, m.physical_offset,
            sys_flag, m.born_timestamp, m._born_host, m.store_timestamp, store_host,
            m.reconsume_times, m.prepared_transaction_offset, size,
        ) = _V4.unpack_from(data, position)  # fmt: skip
        if magic not in (MAGIC_V1, MAGIC_V2) or not RECORD_SIZE_MIN <= total <= end - position:
            raise ContentError(
                f"no stored message at byte {position}: magic {magic:#x}, size {total} of "
                f"{end - position}"
            )
        at = position + _V4.size
        if sys_flag & _V6_FLAGS:
            store_host, size, at = _read_v6(m, data, position, sys_flag)
        m.store_size, m.sys_flag = total, sys_flag
        if size < 0:
            raise ContentError(f"the stored message at byte {position} has a body of {size} bytes")
        body_end = at + size
        m.body = data[at:body_end]
        if magic == MAGIC_V1:
            size = data[body_end]
            at = body_end + 1
        else:
            (size,) = _SHORT.unpack_from(data, body_end)
            at = body_end + 2
        topic_end = at + size
        m.topic = data[at:topic_end].decode()
        (size,) = _SHORT.unpack_from(data, topic_end)
        at = topic_end + 2
        if at + size != position + total:
            raise ContentError(f"the stored message at byte {position} is not {total} bytes long")
        m._properties = data[at : at + size] + added
    except (struct.error, IndexError, ValueError) as e:
        raise ContentError(f"the stored message at byte {position} cannot be read: {e}") from e
    m._store_host = m._offset_msg_id = store_host
    m.broker_name = broker_name
    return m


_new = ReceivedMessage.__new__


def _read_v6(
    m: ReceivedMessage, data: bytes, position: int, sys_flag: int
) -> tuple[bytes, int, int]:
    """Reads what follows the born time in a record of which a host is IPv6.

    Returns:
        The store host, the body's size, and where the body begins.
    """
    at = position + BORN_HOST_AT
    size = IPV6_HOST_SIZE if sys_flag & flags.BORN_HOST_V6 else IPV4_HOST_SIZE
    m._born_host = data[at : at + size]
    at += size
    (m.store_timestamp,) = _STORED.unpack_from(data, at)
    at += _STORED.size
    size = IPV6_HOST_SIZE if sys_flag & flags.STORE_HOST_V6 else IPV4_HOST_SIZE
    store_host = data[at : at + size]
    at += size
    m.reconsume_times, m.prepared_transaction_offset, size = _TAIL.unpack_from(data, at)
    return store_host, size, at + _TAIL.size
