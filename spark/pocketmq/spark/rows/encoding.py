"""Encodes Arrow columns as messages as they travel, all rows at once.

A message is head, body, and a tail of topic and properties. Everything of fixed width is written by
numpy for all rows at once; Arrow then joins heads, bodies and tails row by row, and the data buffer
of the joined array *is* the messages back to back. No row is touched by Python, except for its
CRC-32, which costs most of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.protocol.messages import batch
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.record_columns import RECORD_HEAD, crcs_at
from pocketmq.protocol.messages.records import MAGIC_V1, MAGIC_V2, TOPIC_SIZE_V1_MAX
from pocketmq.spark.rows.hex_digits import UPPER, put_digits
from pocketmq.spark.rows.marks import MARK_PROPERTIES
from pocketmq.spark.rows.rows import Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

ENTRY_HEAD = np.dtype(
    [("total", ">i4"), ("magic", ">i4"), ("crc", ">i4"), ("flag", ">i4"), ("body_size", ">i4")]
)
"""An entry of a client batch up to its body (see `pocketmq.protocol.messages.batch`)."""
assert ENTRY_HEAD.itemsize + 2 == batch.ENTRY_OVERHEAD

UNIQUE_KEY_SIZE = 32
_PREFIX_SIZE = 20
"""Characters of a unique key that tell its sender; the others tell time and count."""

_NAME_END, _VALUE_END = props.NAME_END.encode(), props.VALUE_END.encode()
_UNIQUE_KEY_NAME = props.UNIQ_KEY.encode() + _NAME_END
FIXED_PROPERTIES_SIZE = len(_UNIQUE_KEY_NAME) + UNIQUE_KEY_SIZE + len(_VALUE_END)
"""All but rows' own. WAIT is left out: readers take it for "true" without it."""

OWN_PROPERTIES = (
    props.UNIQ_KEY,
    props.WAIT,
    props.CLUSTER,
    props.MSG_REGION,
    props.TRACE_ON,
    props.MIN_OFFSET,
    props.MAX_OFFSET,
)
"""Properties that writer and broker set for themselves: left out of the properties of a row, so
that what was read from a topic can be written to another."""

DELAY_PROPERTIES = (props.DELAY, *props.TIMER_PROPERTIES)
"""Properties that would hold a message back; bulk writes go straight to their queue."""


class UniqueKeyBlocks:
    """Gives blocks of messages their `UNIQ_KEY` (see `pocketmq.protocol.messages.ids.unique_key`).

    Args:
        first: a key of this process, by `pocketmq.client.instance.identity.UniqueKeys`; the blocks
            count on from it.
    """

    def __init__(self, first: str) -> None:
        self._prefix = np.frombuffer(first[:_PREFIX_SIZE].encode(), np.uint8)
        # Time and counter are taken as one number that counts on, so that no two keys are equal
        # however many are drawn in one millisecond.
        self._next = int(first[_PREFIX_SIZE:], 16)

    def draw(self, count: int) -> Bytes:
        """Draws keys, one in each row."""
        numbers = np.arange(self._next, self._next + count, dtype=np.int64)
        self._next += count
        keys = np.empty((count, UNIQUE_KEY_SIZE), np.uint8)
        keys[:, :_PREFIX_SIZE] = self._prefix
        put_digits(numbers, keys[:, _PREFIX_SIZE:], UPPER)
        return keys


class Encoded(NamedTuple):
    """Messages back to back.

    Attributes:
        data: the bytes.
        ends: where each message begins, and after them where the last one ends; from 0 on.
    """

    data: memoryview
    ends: Ints

    def chunk(self, first: int, last: int) -> Encoded:
        """Cuts out the messages from one to another (exclusive), in the same memory."""
        start, end = int(self.ends[first]), int(self.ends[last])
        return Encoded(self.data[start:end], self.ends[first : last + 1] - start)

    @property
    def rows(self) -> int:
        """How many messages are encoded."""
        return len(self.ends) - 1


def encode_records(
    rows: Rows,
    *,
    topic: bytes,
    queue_ids: npt.NDArray[np.int32] | int,
    born_timestamp: int,
    born_host: bytes,
    unique_keys: Bytes,
) -> Encoded:
    """Encodes rows as stored records, which a PocketMQ broker takes by `BulkAppendRequest`.

    What only the broker knows (offsets, store time, its address) is left zero.

    Args:
        rows: what is sent.
        topic: its name.
        queue_ids: of each row, or of all.
        born_timestamp: milliseconds since the epoch.
        born_host: the sender's encoded IPv4 address and port.
        unique_keys: a row of 32 characters for each message.

    Raises:
        RowError: a row's properties are too long, or hold a character that separates them.
    """
    body_ends = _ends(rows.body)
    variable = _variable_properties(rows)
    properties_sizes = _properties_sizes(variable, rows)
    if len(topic) <= TOPIC_SIZE_V1_MAX:
        magic, topic_part = MAGIC_V1, bytes((len(topic),)) + topic
    else:
        magic, topic_part = MAGIC_V2, len(topic).to_bytes(2, "big") + topic
    body_sizes = np.diff(body_ends)
    heads = np.zeros(rows.size, RECORD_HEAD)
    heads["total"] = RECORD_HEAD.itemsize + body_sizes + len(topic_part) + 2 + properties_sizes
    heads["magic"] = magic
    heads["body_crc"] = crcs_at(rows.body.buffers()[2] or b"", body_ends[:-1], body_sizes)
    heads["queue_id"] = queue_ids
    heads["born_timestamp"] = born_timestamp
    heads["born_host"] = np.frombuffer(born_host, np.uint8)
    heads["body_size"] = body_sizes
    tails = _tails(topic_part, properties_sizes, unique_keys)
    return _join(heads, rows.body, tails, variable)


def encode_entries(rows: Rows, *, unique_keys: Bytes) -> Encoded:
    """Encodes rows as entries of client batches, which every RocketMQ broker takes.

    Raises:
        RowError: a row's properties are too long, or hold a character that separates them.
    """
    body_ends = _ends(rows.body)
    variable = _variable_properties(rows)
    properties_sizes = _properties_sizes(variable, rows)
    body_sizes = np.diff(body_ends)
    heads = np.zeros(rows.size, ENTRY_HEAD)
    heads["total"] = batch.ENTRY_OVERHEAD + body_sizes + properties_sizes
    heads["body_size"] = body_sizes
    return _join(heads, rows.body, _tails(b"", properties_sizes, unique_keys), variable)


def with_queue_id(encoded: Encoded, queue_id: int) -> Encoded:
    """Copies stored records with another queue id, for a chunk that goes to another queue."""
    data = np.frombuffer(encoded.data, np.uint8).copy()
    at = encoded.ends[:-1, None] + 12 + np.arange(4)
    data[at] = np.frombuffer(queue_id.to_bytes(4, "big"), np.uint8)
    return Encoded(data.data, encoded.ends)


def chunk_bounds(ends: Ints, groups: Sequence[int], size_max: int, count_max: int) -> list[int]:
    """Cuts messages into chunks, each within one group and the limits; returns their bounds.

    A single message over `size_max` is a chunk of its own.

    Args:
        ends: of the messages, see `Encoded`.
        groups: indices of messages at which a new group begins, and the number of messages.
        size_max: bytes of a chunk.
        count_max: messages of a chunk.
    """
    bounds = [0]
    for group_end in groups:
        while bounds[-1] < group_end:
            first = bounds[-1]
            fits = int(np.searchsorted(ends, ends[first] + size_max, "right")) - 1
            bounds.append(max(first + 1, min(fits, first + count_max, group_end)))
    return bounds


def _ends(array: Any) -> Ints:
    """Offsets of a binary or string array into its data buffer."""
    return np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4).astype(
        np.int64
    )


def _tails(topic_part: bytes, properties_sizes: Ints, unique_keys: Bytes) -> Bytes:
    """The part of each message that follows the body and has the same width in every row."""
    at = len(topic_part) + 2
    width = at + FIXED_PROPERTIES_SIZE
    tails = np.empty((len(properties_sizes), width), np.uint8)
    model = topic_part + b"\0\0" + _UNIQUE_KEY_NAME + bytes(UNIQUE_KEY_SIZE) + _VALUE_END
    tails[:] = np.frombuffer(model, np.uint8)
    tails[:, at - 2 : at] = properties_sizes.astype(">u2").view(np.uint8).reshape(-1, 2)
    at += len(_UNIQUE_KEY_NAME)
    tails[:, at : at + UNIQUE_KEY_SIZE] = unique_keys
    return tails


def _variable_properties(rows: Rows) -> list[Any]:
    """The parts that follow the fixed properties; each an array of binaries or one constant."""
    parts: list[Any] = []
    named = (
        (props.KEYS, rows.keys),
        (props.TAGS, rows.tags),
        (props.SHARDING_KEY, rows.sharding_keys),
    )
    left_out = [*OWN_PROPERTIES, *MARK_PROPERTIES]
    for name, column in named:
        if column is not None:
            parts += _named_property(rows, name.encode() + _NAME_END, column)
            left_out.append(name)
    if rows.properties is not None:
        parts.append(_map_properties(rows, left_out))
    if rows.marks is not None:
        parts.append(rows.marks)
    return parts


def _named_property(rows: Rows, start: bytes, column: Any) -> list[Any]:
    _refuse_separators(rows, column, lambda index: index)
    values = column.cast(pa.binary())
    is_set = pc.greater(pc.binary_length(values), 0)
    if values.null_count == 0 and pc.all(is_set).as_py() is not False:
        return [start, values, _VALUE_END]
    whole = pc.binary_join_element_wise(start, values, _VALUE_END, b"")
    return [pc.if_else(pc.fill_null(is_set, False), whole, pa.scalar(b"", pa.binary()))]


def _map_properties(rows: Rows, left_out: Sequence[str]) -> Any:
    """Makes one binary of each map: its entries as they travel, but those without a value."""
    column = rows.properties
    offsets = column.offsets.to_numpy().astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if size == 0:
        return pa.array([b""] * len(column), pa.binary())
    names, values = column.keys.slice(first, size), column.items.slice(first, size)
    row_of = np.repeat(np.arange(len(column)), np.diff(offsets))
    _refuse_separators(rows, names, lambda index: int(row_of[index]))
    _refuse_separators(rows, values, lambda index: int(row_of[index]))
    is_kept = _flags(pc.fill_null(pc.greater(pc.binary_length(values), 0), False))
    is_kept &= ~_flags(pc.is_in(names, pa.array(left_out)))
    if column.null_count:
        is_kept &= _flags(column.is_valid())[row_of]
    is_delay = _flags(pc.is_in(names, pa.array(DELAY_PROPERTIES))) & is_kept
    if is_delay.any():
        index = int(np.argmax(is_delay))
        raise rows.error(
            int(row_of[index]),
            f"its property {names[index].as_py()} asks for a delayed delivery: drop the property, "
            f"and use the column delayLevel or deliverAt if that is wanted",
        )
    entries = pc.binary_join_element_wise(
        names.cast(pa.binary()), _NAME_END, values.cast(pa.binary()), _VALUE_END, b""
    ).filter(pa.array(is_kept))
    kept_until = np.concatenate(([0], np.cumsum(is_kept)))[offsets - first]
    if len(entries) == 0:
        return pa.array([b""] * len(column), pa.binary())
    # The entries of one row lie side by side already: rows only need offsets of their own.
    ends = _ends(entries)[kept_until].astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(ends), entries.buffers()[2]]
    )


def _flags(array: Any) -> npt.NDArray[np.bool_]:
    flags: npt.NDArray[np.bool_] = np.array(array)
    return flags


def _refuse_separators(rows: Rows, column: Any, row_of: Callable[[int], int]) -> None:
    """Raises if a text holds 0x01 or 0x02; looks in the whole buffer first, then for the row."""
    ends = _ends(column)
    first, last = int(ends[0]), int(ends[-1])
    if first == last:
        return
    data = np.frombuffer(column.buffers()[2], np.uint8, last - first, first)
    # Unsigned: 0x01 and 0x02 are the two smallest after 1 is taken off.
    found = data - 1 < 2
    if found.any():
        at = int(np.argmax(found)) + first
        index = int(np.searchsorted(ends, at, "right")) - 1
        raise rows.error(
            row_of(index),
            f"{column[index].as_py()!r} holds the character 0x01 or 0x02, which separate "
            f"properties on the wire: encode it (base64, percent) before it is written",
        )


def _properties_sizes(variable: list[Any], rows: Rows) -> Ints:
    sizes = np.full(rows.size, FIXED_PROPERTIES_SIZE, np.int64)
    for part in variable:
        sizes += len(part) if isinstance(part, bytes) else np.diff(_ends(part))
    if rows.size and int(sizes.max()) > props.PROPERTIES_SIZE_MAX:
        row = int(np.argmax(sizes))
        raise rows.error(
            row,
            f"its properties have {sizes[row]} bytes, the limit is {props.PROPERTIES_SIZE_MAX}",
        )
    return sizes


def _join(heads: npt.NDArray[Any], body: Any, tails: Bytes, variable: list[Any]) -> Encoded:
    parts = (_fixed_width(heads), body, _fixed_width(tails), *variable)
    joined = pc.binary_join_element_wise(*parts, b"")
    return Encoded(memoryview(joined.buffers()[2] or b""), _ends(joined))


def _fixed_width(rows: npt.NDArray[Any]) -> Any:
    """Makes rows of a numpy table an Arrow array of binaries, in the same memory."""
    width = rows.itemsize if rows.ndim == 1 else rows.shape[1]
    ends = np.arange(0, (len(rows) + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(rows), [None, pa.py_buffer(ends), pa.py_buffer(rows)]
    )
