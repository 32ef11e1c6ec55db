"""A client batch as stored records: one loop, because batches are where rates are highest."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from isal.isal_zlib import crc32

from pocketmq.broker.store.log.segment import ENTRY, POSITION_MASK, physical_offset
from pocketmq.broker.store.log.tags import TAGS_MARK, encoded_tags_code
from pocketmq.protocol import flags
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.protocol.messages.records import MAGIC_V1, TOPIC_SIZE_V1_MAX

_SHORT = struct.Struct(">H")


class LogEnd(Protocol):
    """Where the records of a batch are to stand: behind the last one of a `QueueLog`."""

    @property
    def queue_id(self) -> int: ...  # noqa: D102

    @property
    def number(self) -> int: ...  # noqa: D102

    @property
    def next_offset(self) -> int: ...  # noqa: D102

    @property
    def next_position(self) -> int: ...  # noqa: D102


class StoredBatch(NamedTuple):
    """Records back to back, their index entries, and the physical offset of each."""

    records: bytes
    entries: bytes
    physical_offsets: list[int]


def stored_batch(
    batch: Sequence[tuple[int, bytes, bytes]],
    queue_log: LogEnd,
    *,
    topic: bytes,
    sys_flag: int,
    born_timestamp: int,
    born_host: bytes,
    store_timestamp: int,
    store_host: bytes,
    reconsume_times: int,
) -> StoredBatch:
    """Encodes the messages of a batch for the end of a log, as `records.encode_record` does.

    Raises:
        struct.error: a number does not fit into a record.
    """
    assert len(topic) <= TOPIC_SIZE_V1_MAX
    sys_flag &= ~(flags.BORN_HOST_V6 | flags.STORE_HOST_V6)
    if len(born_host) == IPV6_HOST_SIZE:
        sys_flag |= flags.BORN_HOST_V6
    if len(store_host) == IPV6_HOST_SIZE:
        sys_flag |= flags.STORE_HOST_V6
    pack_head = _head_struct(len(born_host), len(store_host)).pack
    pack_size, pack_entry = _SHORT.pack, ENTRY.pack
    topic_part = bytes((len(topic),)) + topic
    size_without = _head_struct(len(born_host), len(store_host)).size + len(topic_part) + 2
    queue_id, offset, position = queue_log.queue_id, queue_log.next_offset, queue_log.next_position
    log_base = physical_offset(queue_log.number, 0)
    tags_mark = TAGS_MARK
    parts: list[bytes] = []
    entries: list[bytes] = []
    physical_offsets: list[int] = []
    for flag, body, properties in batch:
        body_size, properties_size = len(body), len(properties)
        size = size_without + body_size + properties_size
        physical = log_base | position & POSITION_MASK
        head = pack_head(
            size, MAGIC_V1, crc32(body) & 0x7FFFFFFF, queue_id, flag, offset, physical, sys_flag,
            born_timestamp, born_host, store_timestamp, store_host, reconsume_times, 0, body_size,
        )  # fmt: skip
        parts += (head, body, topic_part, pack_size(properties_size), properties)
        code = encoded_tags_code(properties) if tags_mark in properties else 0
        entries.append(pack_entry(physical, size, code))
        physical_offsets.append(physical)
        position += size
        offset += 1
    return StoredBatch(b"".join(parts), b"".join(entries), physical_offsets)


_HEADS = {
    (born, store): struct.Struct(f">IIIiiqqiq{born}sq{store}siqi")
    for born in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
    for store in (IPV4_HOST_SIZE, IPV6_HOST_SIZE)
}
"""Everything before the body, by the sizes of the born host and the store host."""


def _head_struct(born_host_size: int, store_host_size: int) -> struct.Struct:
    return _HEADS[born_host_size, store_host_size]
