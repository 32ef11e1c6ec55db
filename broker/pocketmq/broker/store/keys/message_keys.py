"""Computes the keys of a message: its unique key, the words of its KEYS, its tags.

The index holds 32-bit hashes of them; whoever finds one looks into the record itself.
"""

from __future__ import annotations

from enum import StrEnum
from struct import Struct

from isal.isal_zlib import crc32

from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import (
    BODY_SIZE_AT_V4,
    MAGIC_V1,
    SYS_FLAG_AT,
    topic_and_properties,
)

_INT = Struct(">I")
V6_HOSTS = flags.BORN_HOST_V6 | flags.STORE_HOST_V6
_UNIQUE_KEY = props.UNIQ_KEY.encode() + b"\x01"
_KEYS = props.KEYS.encode() + b"\x01"
_TAGS = props.TAGS.encode() + b"\x01"
_MAGIC_V1_END = MAGIC_V1 & 0xFF
_VALUE_END = ord(props.VALUE_END)
TAGS_SEED = crc32(b"#T#")
OFFSET_BITS = 32


class IndexType(StrEnum):
    """The kind of key that a search looks at (`MessageConst.INDEX_*_TYPE`)."""

    KEY = "K"
    UNIQUE_KEY = "U"
    """RocketMQ keeps both kinds of keys in one index: either finds the other, too."""
    TAG = "T"


def hash_of(key: bytes, index_type: IndexType) -> int:
    """Computes the 32 bits that the index holds of a key."""
    return crc32(key, TAGS_SEED) if index_type is IndexType.TAG else crc32(key)


def index_items(data: bytes, entries: bytes, offset: int) -> list[int]:
    """Computes the index items of neighbouring records: hash · 2^32 + offset, in no order.

    Messages of rolled back transactions have none (`IndexService#buildIndex`).

    Args:
        data: the records back to back.
        entries: their index entries.
        offset: of the first one, counted from where the segment begins.
    """
    items: list[int] = []
    add = items.append
    position = 0
    for _, size, _ in ENTRY.iter_unpack(entries):
        end = position + size
        sys_flag = _INT.unpack_from(data, position + SYS_FLAG_AT)[0]
        if sys_flag & flags.TRANSACTION_MASK != flags.TRANSACTION_ROLLBACK:
            if sys_flag & V6_HOSTS or data[position + 7] != _MAGIC_V1_END:
                properties = topic_and_properties(data, position)[1]
            else:  # nearly all records: IPv4 hosts and the topic's length in one byte
                at = position + BODY_SIZE_AT_V4
                at += 4 + _INT.unpack_from(data, at)[0]
                properties = data[at + 3 + data[at] : end]
            key = _value(properties, _UNIQUE_KEY)
            if key:
                add(crc32(key) << OFFSET_BITS | offset)
            if _KEYS in properties:
                for word in set(_value(properties, _KEYS).split(b" ")):
                    if word and word != key:
                        add(crc32(word) << OFFSET_BITS | offset)
            if _TAGS in properties:
                tags = _value(properties, _TAGS)
                if tags:
                    add(crc32(tags, TAGS_SEED) << OFFSET_BITS | offset)
        position = end
        offset += 1
    return items


def has_key(record: bytes, key: bytes, index_type: IndexType) -> bool:
    """Whether a record has a key, by the rules of `index_items` but without the hash."""
    (sys_flag,) = _INT.unpack_from(record, SYS_FLAG_AT)
    if not key or sys_flag & flags.TRANSACTION_MASK == flags.TRANSACTION_ROLLBACK:
        return False
    properties = topic_and_properties(record)[1]
    if index_type is IndexType.TAG:
        return _value(properties, _TAGS) == key
    return _value(properties, _UNIQUE_KEY) == key or key in _value(properties, _KEYS).split(b" ")


def _value(properties: bytes, mark: bytes) -> bytes:
    """The value of the first property with a name; empty if there is none."""
    at = properties.find(mark)
    while at > 0 and properties[at - 1] != _VALUE_END:  # the end of a longer name
        at = properties.find(mark, at + 1)
    if at < 0:
        return b""
    at += len(mark)
    end = properties.find(_VALUE_END, at)
    return properties[at:] if end < 0 else properties[at:end]
