"""What a leader tells its followers: records, changes of the metadata, committed offsets.

Items stand in frames in the order in which the leader made the changes, so that a follower never
knows an effect without its cause: the settings of a topic come before its messages, and delivered
copies before the progress that counts them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import msgspec

from pocketmq.protocol.errors import ContentError

ITEM_SIZE_MAX = 1024 * 1024
"""Bytes of records in one item, but always one record: what follows is another item."""

_RECORDS, _PACKED = 1, 2
_HEAD = struct.Struct(">BI")
_RECORDS_HEAD = struct.Struct(">IqqqqII")

OffsetRow = tuple[str, str, int, int]


class Records(msgspec.Struct, frozen=True, gc=False, eq=False):
    """Records of one log, back to back, with their index entries.

    Attributes:
        number: of the log.
        epoch: of the leader that wrote them.
        position, offset: of the first one.
        timestamp: the store time of the last one.
        entries, data: the index entries and the records.
    """

    number: int
    epoch: int
    position: int
    offset: int
    timestamp: int
    entries: bytes | memoryview
    data: bytes | memoryview


class Change(msgspec.Struct, frozen=True, tag="change", array_like=True):
    """A change of the metadata: a method in `store.metadata.metadata.CHANGES`, with arguments."""

    method: str
    arguments: tuple[Any, ...]


class Offsets(msgspec.Struct, frozen=True, tag="offsets", array_like=True):
    """Offsets that groups have committed: (group, topic, queue id, offset) rows."""

    rows: list[OffsetRow]


class Table(msgspec.Struct, frozen=True, tag="table", array_like=True):
    """Rows of a common table of the metadata, for a follower that joins."""

    name: str
    rows: list[tuple[Any, ...]]


class TablesEnd(msgspec.Struct, frozen=True, tag="tables_end", array_like=True):
    """All rows of all tables were told."""


class Begin(msgspec.Struct, frozen=True, tag="begin", array_like=True):
    """A log begins anew at a position and offset: retention has removed what is before them."""

    number: int
    position: int
    offset: int


class Low(msgspec.Struct, frozen=True, tag="low", array_like=True):
    """Retention has removed the records of a log before a position."""

    number: int
    position: int


class Live(msgspec.Struct, frozen=True, tag="live", array_like=True):
    """The follower has everything up to here; from now on it gets each commit."""


Packed = Change | Offsets | Table | TablesEnd | Begin | Low | Live
Item = Records | Packed

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Packed).decode


def encode_item(item: Item) -> list[bytes | memoryview]:
    """Encodes an item, in pieces."""
    if not isinstance(item, Records):
        text = _pack(item)
        return [_HEAD.pack(_PACKED, len(text)), text]
    head = _RECORDS_HEAD.pack(
        item.number, item.epoch, item.position, item.offset, item.timestamp,
        len(item.entries), len(item.data),
    )  # fmt: skip
    size = len(head) + len(item.entries) + len(item.data)
    return [_HEAD.pack(_RECORDS, size) + head, item.entries, item.data]


def decode_items(body: bytes | memoryview) -> Iterator[Item]:
    """Yields the items of a frame's body.

    Raises:
        ContentError: it is not made of items.
    """
    view = memoryview(body)
    at = 0
    try:
        while at < len(view):
            kind, size = _HEAD.unpack_from(view, at)
            at += _HEAD.size
            part = view[at : at + size]
            if len(part) != size:
                raise ContentError(f"an item of {size} bytes has {len(part)}")
            at += size
            yield _records(part) if kind == _RECORDS else _unpack(part)
    except (struct.error, msgspec.MsgspecError) as e:
        raise ContentError(f"what the leader sent cannot be read: {e}") from e


def _records(part: memoryview) -> Records:
    number, epoch, position, offset, timestamp, index_size, size = _RECORDS_HEAD.unpack_from(part)
    at = _RECORDS_HEAD.size
    data = part[at + index_size :]
    if len(data) != size:
        raise ContentError(f"{size} bytes of records were told, {len(data)} came")
    entries = part[at : at + index_size]
    return Records(number, epoch, position, offset, timestamp, entries, data)
