"""Turns stored records into an Arrow batch, all rows at once.

Bodies, topics and properties are cut out of the very bytes that came from the broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import decompress
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE, IPV6_HOST_SIZE
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.messages.record_columns import RECORD_HEAD, parts_at
from pocketmq.protocol.messages.records import MAGIC_V2, STORE_TIMESTAMP_AT_V4
from pocketmq.spark.rows.marks import WRITER_ID
from pocketmq.spark.rows.parts import RecordPart, record_bounds
from pocketmq.spark.rows.property_columns import PropertyColumns, cut_out

Ints = npt.NDArray[np.int64]

TIMESTAMP = pa.timestamp("us", "UTC")
PROPERTIES = pa.map_(pa.string(), pa.string())

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("queueOffset", pa.int64()),
        ("msgId", pa.string()),
        ("keys", pa.string()),
        ("tags", pa.string()),
        ("value", pa.binary()),
        ("properties", PROPERTIES),
        ("bornTimestamp", TIMESTAMP),
        ("storeTimestamp", TIMESTAMP),
        ("reconsumeTimes", pa.int32()),
    ]
)
"""What a read gives; without includeProperties the column properties is left out."""

_HOST_GROWTH = IPV6_HOST_SIZE - IPV4_HOST_SIZE
_STORE_HOST_FROM_TIMESTAMP = 8
_BODY_SIZE_FROM_RECONSUME = 12


class RowFilter(Protocol):
    """Tells which rows of a queue a read gives."""

    def counts(
        self, writers: Any, offsets: Ints, store_timestamps: Ints
    ) -> npt.NDArray[np.bool_] | None:
        """Tells which rows the read gives; None for all.

        Args:
            writers: the property ``WRITER_ID`` of each row; null for rows without a mark.
            offsets: of the rows.
            store_timestamps: of the rows, milliseconds.
        """


def decode_records(
    data: bytes | RecordPart,
    broker_name: str,
    *,
    topic: str | None = None,
    with_properties: bool = True,
    offset_end: int | None = None,
    repeats: RowFilter | None = None,
    tags: frozenset[str] | None = None,
    columns: Collection[str] | None = None,
) -> Any:
    """Decodes the records of a pull into a record batch of `SCHEMA`.

    Args:
        data: records back to back, or a part as a pull brings it.
        broker_name: the broker they come from.
        topic: written into the column; None for the topic that each record names.
        with_properties: with the column properties.
        offset_end: messages from this queue offset on are left out.
        repeats: leaves out rows that do not count.
        tags: leaves out rows with other tags: brokers go by the hashes of tags.
        columns: only these, and nothing is done for others; None or none for all.

    Raises:
        UnknownCommitError: it cannot be known whether a row counts, and this is to be an error.
        ContentError: a record is cut off, has an unknown magic, or a body cannot be unpacked.
    """
    view = _Records(data if isinstance(data, RecordPart) else RecordPart(data))
    if offset_end is not None:
        view.keep_below(offset_end)
    texts = _LazyProperties(view)
    makers: dict[str, Callable[[], Any]] = {
        "topic": lambda: view.topics() if topic is None else _constant(topic, view.rows),
        "brokerName": lambda: _constant(broker_name, view.rows),
        "queueId": lambda: pa.array(view.queue_ids),
        "queueOffset": lambda: pa.array(view.queue_offsets),
        "msgId": lambda: view.message_ids(texts.value_of(props.UNIQ_KEY)),
        "keys": lambda: texts.value_of(props.KEYS),
        "tags": lambda: texts.value_of(props.TAGS),
        "value": view.bodies,
        "properties": texts.maps,
        "bornTimestamp": lambda: _timestamps(view.born_timestamps),
        "storeTimestamp": lambda: _timestamps(view.store_timestamps),
        "reconsumeTimes": lambda: pa.array(view.reconsume_times),
    }
    schema = read_schema(with_properties=with_properties)
    if columns:
        schema = pa.schema([field for field in schema if field.name in columns])
    batch = pa.RecordBatch.from_arrays([makers[name]() for name in schema.names], schema=schema)
    kept = None
    if repeats is not None and view.rows:
        writers = texts.value_of(WRITER_ID)
        kept = repeats.counts(writers, view.queue_offsets, view.store_timestamps)
    if tags is not None:
        is_tagged = np.array(pc.is_in(texts.value_of(props.TAGS), pa.array(sorted(tags))))
        kept = is_tagged if kept is None else kept & is_tagged
    return batch if kept is None else batch.filter(pa.array(kept))


class _LazyProperties:
    """The properties of all records, taken apart when the first one is asked for."""

    def __init__(self, view: _Records) -> None:
        self._view = view

    @cached_property
    def _columns(self) -> PropertyColumns:
        return PropertyColumns(self._view.properties())

    def value_of(self, name: str) -> Any:
        return self._columns.value_of(name)

    def maps(self) -> Any:
        return self._columns.maps()


def read_schema(*, with_properties: bool) -> Any:
    """Returns the Arrow schema of a read."""
    if with_properties:
        return SCHEMA
    return SCHEMA.remove(SCHEMA.get_field_index("properties"))


class _Records:
    """The fields of many records, each field of all at once."""

    def __init__(self, part: RecordPart) -> None:
        self._data = part.data
        self._bytes = np.frombuffer(part.data, np.uint8)
        bounds = record_bounds(part.data) if part.bounds is None else part.bounds
        self._locate(bounds[:-1], bounds[1:])

    def _locate(self, starts: Ints, record_ends: Ints) -> None:
        self._starts, self._record_ends = starts, record_ends
        self.rows = len(starts)
        # To copy all heads in one go costs what one field of each record costs: to get there.
        heads = parts_at(self._data, starts, RECORD_HEAD.itemsize).reshape(-1).view(RECORD_HEAD)
        self._heads = heads
        self.queue_offsets = heads["queue_offset"].astype(np.int64)
        self.sys_flags = heads["sys_flag"]
        self._has_v6 = bool((self.sys_flags & (flags.BORN_HOST_V6 | flags.STORE_HOST_V6)).any())
        if self._has_v6:
            self._locate_behind_hosts()
        else:
            self._body_at = starts + RECORD_HEAD.itemsize
            self._body_end = self._body_at + heads["body_size"]
        self._require(self._body_end + 1, at_least=self._body_at)
        self._locate_topics()

    def _locate_behind_hosts(self) -> None:
        """Finds what stands behind addresses of which some are of IPv6, which are longer."""
        starts = self._starts
        is_born_v6 = (self.sys_flags & flags.BORN_HOST_V6) != 0
        is_store_v6 = (self.sys_flags & flags.STORE_HOST_V6) != 0
        self._store_timestamp_at = starts + STORE_TIMESTAMP_AT_V4 + is_born_v6 * _HOST_GROWTH
        self._store_host_size = IPV4_HOST_SIZE + is_store_v6 * _HOST_GROWTH
        self._reconsume_at = (
            self._store_timestamp_at + _STORE_HOST_FROM_TIMESTAMP + self._store_host_size
        )
        size_at = self._reconsume_at + _BODY_SIZE_FROM_RECONSUME
        self._require(size_at + 4)
        self._body_at = size_at + 4
        self._body_end = self._body_at + self._int32(size_at)

    def _locate_topics(self) -> None:
        is_v2 = self._heads["magic"] == MAGIC_V2
        sizes = self._bytes[self._body_end].astype(np.int64)
        self._topic_at = self._body_end + 1 + is_v2
        if is_v2.any():
            self._require(self._topic_at)
            sizes = np.where(is_v2, sizes << 8 | self._bytes[self._topic_at - 1], sizes)
        self._topic_end = self._topic_at + sizes
        self._properties_at = self._topic_end + 2
        self._require(self._properties_at)
        properties_size = self._bytes[self._topic_end].astype(np.int64) << 8
        properties_size |= self._bytes[self._topic_end + 1]
        is_wrong = self._properties_at + properties_size != self._record_ends
        if is_wrong.any():
            self._refuse(is_wrong)

    def _require(self, until: Ints, at_least: Ints | None = None) -> None:
        """Checks that a part of each record lies within the record."""
        is_wrong = until > self._record_ends
        if at_least is not None:
            is_wrong |= until <= at_least
        if is_wrong.any():
            self._refuse(is_wrong)

    def _refuse(self, is_wrong: npt.NDArray[np.bool_]) -> None:
        position = int(self._starts[np.argmax(is_wrong)])
        raise ContentError(
            f"the stored message at byte {position} cannot be read: its lengths "
            f"contradict each other"
        )

    def keep_below(self, offset_end: int) -> None:
        """Leaves out the records from a queue offset on."""
        if self.rows and self.queue_offsets[-1] >= offset_end:
            kept = self.queue_offsets < offset_end
            self._locate(self._starts[kept], self._record_ends[kept])

    @property
    def queue_ids(self) -> npt.NDArray[np.int32]:
        """The queue of each record."""
        return self._heads["queue_id"].astype(np.int32)

    @property
    def born_timestamps(self) -> Ints:
        """When each record was sent, milliseconds."""
        return self._heads["born_timestamp"].astype(np.int64)

    @property
    def store_timestamps(self) -> Ints:
        """When each record was stored, milliseconds."""
        if self._has_v6:
            return self._int64(self._store_timestamp_at)
        return self._heads["store_timestamp"].astype(np.int64)

    @property
    def reconsume_times(self) -> npt.NDArray[np.int32]:
        """How often each message was sent back."""
        if self._has_v6:
            return self._int32(self._reconsume_at)
        return self._heads["reconsume_times"].astype(np.int32)

    def topics(self) -> Any:
        """Cuts out the topic of each record."""
        return self._parts(self._topic_at, self._topic_end, pa.string())

    def properties(self) -> Any:
        """Cuts out the properties of each record, as they travel."""
        return self._parts(self._properties_at, self._record_ends, pa.string())

    def bodies(self) -> Any:
        """Cuts out the body of each record, and unpacks it."""
        bodies = self._parts(self._body_at, self._body_end, pa.binary())
        compressed = np.flatnonzero(self.sys_flags & flags.COMPRESSED)
        if len(compressed) == 0:
            return bodies
        values = bodies.to_pylist()
        for row in compressed.tolist():
            values[row] = decompress(values[row], int(self.sys_flags[row]))
        return pa.array(values, pa.binary())

    def message_ids(self, unique_keys: Any) -> Any:
        """Returns the id that each sender gave, or else one of the position in the store."""
        if unique_keys.null_count == 0:
            return unique_keys
        physical = self._heads["physical_offset"]
        ids: list[str | None] = [None] * self.rows
        for row in np.flatnonzero(np.array(unique_keys.is_null())).tolist():
            ids[row] = offset_msg_id(self._store_host(row), int(physical[row]))
        return pc.coalesce(unique_keys, pa.array(ids, pa.string()))

    def _store_host(self, row: int) -> bytes:
        if not self._has_v6:
            return bytes(self._heads["store_host"][row])
        at = int(self._store_timestamp_at[row]) + _STORE_HOST_FROM_TIMESTAMP
        return self._data[at : at + int(self._store_host_size[row])]

    def _parts(self, starts: Ints, ends: Ints, kind: Any) -> Any:
        parts = cut_out(self._data, starts, ends)
        if kind == pa.binary():
            return parts
        try:
            return parts.cast(kind)
        except pa.ArrowInvalid as e:
            raise ContentError(f"a stored text is not UTF-8: {e}") from e

    def _int32(self, at: Ints) -> npt.NDArray[np.int32]:
        return parts_at(self._data, at, 4).view(">i4").reshape(-1).astype(np.int32)

    def _int64(self, at: Ints) -> Ints:
        return parts_at(self._data, at, 8).view(">i8").reshape(-1).astype(np.int64)


def _constant(text: str, rows: int) -> Any:
    return pa.repeat(pa.scalar(text, pa.string()), rows)


def _timestamps(milliseconds: Ints) -> Any:
    return pa.array(milliseconds * 1000).cast(TIMESTAMP)
