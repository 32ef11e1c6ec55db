"""The records of a bulk append: checked in large portions, then completed all together.

Importing this imports numpy, which takes longer than a broker's start: only a first bulk append
does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.broker.appending.size_limits import body_too_large, properties_too_large
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.broker.store.log.segment import ENTRY_SIZE, POSITION_MASK
from pocketmq.broker.store.log.tags import TAGS_MARK, encoded_tags_code
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, ResponseError, response_error
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.messages.properties import PROPERTIES_SIZE_MAX, VALUE_END
from pocketmq.protocol.messages.record_columns import (
    RECORD_HEAD,
    RECORD_SIZES,
    crcs_at,
    parts_at,
    put_at,
)
from pocketmq.protocol.messages.records import (
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    STORE_TIMESTAMP_AT_V4,
    TOPIC_SIZE_V1_MAX,
)
from pocketmq.protocol.requests.sending import BulkAppendRequest

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_SIZE = struct.Struct(">I")
_ENTRIES = np.dtype([("physical_offset", ">i8"), ("size", ">i4"), ("code", ">i8")])
assert _ENTRIES.itemsize == ENTRY_SIZE

PORTION_SIZE = 512 * 1024
"""Bytes of records that are checked together: about a millisecond."""

CACHE_LINE = 64

SHORT_PROPERTIES_SIZE_MAX = 256
"""Properties up to this size are looked at together, longer ones one by one."""

_VALUE_END = VALUE_END.encode()
_HIGH_BITS = np.uint64(0x8080808080808080)


class RecordLayout(NamedTuple):
    """The records of a bulk body that were found sound.

    Attributes:
        records: back to back.
        starts, sizes: where each begins, and its bytes.
        codes: their tags codes; None if none has tags.
    """

    records: memoryview
    starts: Ints
    sizes: Ints
    codes: Ints | None


def check_bulk(
    body: bytes, request: BulkAppendRequest, body_size_max: int
) -> Generator[None, None, RecordLayout]:
    """Checks each record of a bulk body: what is stored must be sound, whoever made it.

    The records of a portion are checked together, one property after the other. Between two
    portions the caller may do something else.

    Args:
        body: records back to back, perhaps with their sizes behind them.
        request: which queue they are for, and how many are announced.
        body_size_max: bytes of one message's body.

    Returns:
        All the records.

    Raises:
        ContentError: a record is not what it should be; none of them may be stored.
        ResponseError: 13, a message is larger than the broker takes.
    """
    topic = request.topic.encode()
    if len(topic) > TOPIC_SIZE_V1_MAX:
        raise _illegal(f"a bulk append cannot go to a topic named with over {TOPIC_SIZE_V1_MAX} "
                       f"characters")  # fmt: skip
    records, bounds = _bounds(body, request)
    first, count = 0, len(bounds) - 1
    codes, has_tags = np.zeros(count, np.int64), False
    while first < count:
        if first:
            yield
        fitting = int(np.searchsorted(bounds, bounds[first] + PORTION_SIZE, "right")) - 1
        end = max(first + 1, fitting)
        portion = _Portion(records, bounds[first : end + 1], first)
        found = _check(portion, topic, request, body_size_max)
        if found is not None:
            codes[first:end], has_tags = found, True
        first = end
    return RecordLayout(records, bounds[:-1], np.diff(bounds), codes if has_tags else None)


class _Portion(NamedTuple):
    """Some of the records.

    Attributes:
        records: all of them.
        bounds: where each record of the portion begins, and where the last one ends.
        first: the number of its first record.
    """

    records: memoryview
    bounds: Ints
    first: int


def _check(
    portion: _Portion, topic: bytes, request: BulkAppendRequest, body_size_max: int
) -> Ints | None:
    """Checks a portion; returns the tags codes, None if none of it has tags."""
    records, bounds, _ = portion
    starts, ends = bounds[:-1], bounds[1:]

    def unsound(index: int) -> ContentError:
        return ContentError(
            f"the record at byte {starts[index]} of the bulk body is no sound record of "
            f"{request.topic} queue {request.queue_id}"
        )

    heads = parts_at(records, starts, RECORD_HEAD.itemsize).reshape(-1).view(RECORD_HEAD)
    body_sizes = heads["body_size"].astype(np.int64)
    topic_at = starts + RECORD_HEAD.itemsize + body_sizes
    properties_at = topic_at + 1 + len(topic) + 2
    wrong = (heads["magic"] != MAGIC_V1) | (heads["queue_id"] != request.queue_id)
    wrong |= (heads["sys_flag"] != 0) | (heads["total"] != ends - starts)
    wrong |= (body_sizes <= 0) | (properties_at > ends)
    _refuse(wrong, unsound)  # before anything behind a body is looked at
    topics = parts_at(records, topic_at, 1 + len(topic) + 2)
    properties_sizes = topics[:, -2:].copy().view(">u2").reshape(-1).astype(np.int64)
    wrong = properties_at + properties_sizes != ends
    is_other = topics[:, :-2] != np.frombuffer(bytes((len(topic),)) + topic, np.uint8)
    if is_other.any():  # row by row this takes longer, and it is seldom so
        wrong |= is_other.any(axis=1)
    _refuse(wrong, unsound)
    _check_sizes(body_sizes, properties_sizes, body_size_max, portion.first)
    crcs = crcs_at(records, starts + RECORD_HEAD.itemsize, body_sizes)
    _refuse(
        crcs != heads["body_crc"],
        lambda index: ContentError(f"the CRC of the record at byte {starts[index]} is wrong"),
    )
    return _tags_codes(records, ends, properties_sizes, portion.first)


def complete_records(
    layout: RecordLayout,
    queue_log: QueueLog,
    store_timestamp: int,
    store_host: bytes,
    born_host_size: int = IPV4_HOST_SIZE,
) -> tuple[memoryview, bytes]:
    """Fills in what only the broker knows; returns the records and their index entries.

    Records that can be written to are completed in their place. Others are copied so that they
    stand in memory as they will in the file with regard to the lines of the CPU's cache: the
    system's copy takes half the time then.

    Args:
        layout: the records.
        queue_log: the log to whose end the records belong.
        store_timestamp: milliseconds since the epoch.
        store_host: the broker's encoded address.
        born_host_size: bytes of the sender's address in each record.
    """
    starts, count = layout.starts, len(layout.starts)
    data = layout.records
    if data.readonly:
        data = _like_in_file(data, queue_log.next_file_position)
    first_offset, first_physical = queue_log.next_offset, queue_log.next_physical_offset
    log = first_physical & ~POSITION_MASK
    # As `physical_offset` does it for one record.
    physical = log + ((first_physical & POSITION_MASK) + starts & POSITION_MASK)
    offsets = np.empty((count, 2), ">i8")
    offsets[:, 0] = np.arange(first_offset, first_offset + count)
    offsets[:, 1] = physical
    # Queue offset and physical offset stand side by side, as do store time and store host.
    put_at(data, starts + QUEUE_OFFSET_AT, offsets.view(np.uint8))
    stamp = store_timestamp.to_bytes(8, "big") + store_host
    stamp_at = STORE_TIMESTAMP_AT_V4 + born_host_size - IPV4_HOST_SIZE
    put_at(data, starts + stamp_at, np.frombuffer(stamp, np.uint8))
    entries = np.zeros(count, _ENTRIES)
    entries["physical_offset"], entries["size"] = physical, layout.sizes
    if layout.codes is not None:
        entries["code"] = layout.codes
    return data, entries.tobytes()


def layout_of(records: bytearray, entries: bytearray) -> RecordLayout:
    """The layout of records that the broker has encoded itself, from their index entries.

    Args:
        records: back to back.
        entries: name positions from the first record on.
    """
    columns = np.frombuffer(entries, _ENTRIES)
    starts = columns["physical_offset"].astype(np.int64)
    sizes, codes = columns["size"].astype(np.int64), columns["code"].astype(np.int64)
    return RecordLayout(memoryview(records), starts, sizes, codes)


def places_in(entries: bytes) -> bytes:
    """The physical offsets of index entries, as they stand in offset message ids."""
    return np.frombuffer(entries, _ENTRIES)["physical_offset"].tobytes()


def _like_in_file(records: memoryview, position: int) -> memoryview:
    """Copies records to an address that is, modulo a cache line, their position in the file."""
    room = np.empty(len(records) + CACHE_LINE, np.uint8)
    start = (position - room.ctypes.data) % CACHE_LINE
    data = room[start : start + len(records)]
    data[:] = np.frombuffer(records, np.uint8)
    return data.data


def _bounds(body: bytes, request: BulkAppendRequest) -> tuple[memoryview, Ints]:
    """Splits a body into the records, and the bounds of each."""
    if request.sizes:
        return _bounds_from_sizes(body, request)
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
    return memoryview(body), np.array(bounds, dtype=np.int64)


def _bounds_from_sizes(body: bytes, request: BulkAppendRequest) -> tuple[memoryview, Ints]:
    count = request.count
    records_size = len(body) - count * RECORD_SIZES.itemsize
    if count < 1 or records_size < count * RECORD_SIZE_MIN:
        raise ContentError(f"{count} records and their sizes are announced, {len(body)} bytes came")
    sizes = np.frombuffer(body, RECORD_SIZES, count, records_size)
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(sizes, out=bounds[1:])
    if int(sizes.min()) < RECORD_SIZE_MIN:
        index = int(np.argmin(sizes))
        raise ContentError(f"the size of record {index} is said to be {sizes[index]}: too small")
    if bounds[-1] != records_size:
        raise ContentError(
            f"the sizes say {bounds[-1]} bytes of records, {records_size} came before them"
        )
    return memoryview(body)[:records_size], bounds


def _check_sizes(body_sizes: Ints, properties_sizes: Ints, body_size_max: int, first: int) -> None:
    _refuse(
        body_sizes > body_size_max,
        lambda index: body_too_large(
            f"the body of message {first + index}", body_sizes[index], body_size_max
        ),
    )
    _refuse(
        properties_sizes > PROPERTIES_SIZE_MAX,
        lambda index: properties_too_large(
            f"the properties of message {first + index}", properties_sizes[index]
        ),
    )


def _tags_codes(records: memoryview, ends: Ints, sizes: Ints, first: int) -> Ints | None:
    """The tags codes of all records, None if none has tags.

    Raises:
        ContentError: properties are no UTF-8.
    """
    width = -(-min(int(sizes.max()), SHORT_PROPERTIES_SIZE_MAX) // 8) * 8
    # What ends a record of fewer bytes than that is not looked at together, nor are long ones.
    is_short = (sizes <= width) & (ends >= width)
    windows = parts_at(records, ends[is_short] - width, width) if width else None
    odd = np.flatnonzero(~is_short).tolist()
    has_tags = False
    if windows is not None and len(windows):
        words = windows.view(np.uint64)
        high = words[:, 0]
        for column in range(1, width // 8):
            high = high | words[:, column]
        # Windows begin before the properties, so a high bit only makes them worth a look.
        odd += np.flatnonzero(is_short)[(high & _HIGH_BITS) != 0].tolist()
        has_tags = TAGS_MARK in windows.tobytes()
    for index in odd:
        end = int(ends[index])
        text = bytes(records[end - int(sizes[index]) : end])
        has_tags = has_tags or TAGS_MARK in text
        try:
            text.decode()
        except UnicodeDecodeError as e:
            raise ContentError(f"the properties of message {first + index} are no UTF-8") from e
    if not has_tags:
        return None
    pairs = zip((ends - sizes).tolist(), ends.tolist(), strict=True)
    texts = (bytes(records[at:end]) for at, end in pairs)
    return np.fromiter(_codes_of(texts), np.int64, len(ends))


def _codes_of(properties: Iterable[bytes]) -> Iterator[int]:
    """Yields the `encoded_tags_code` of each, computed once for equal tags."""
    known: dict[bytes, int] = {}
    for text in properties:
        at = text.find(TAGS_MARK)
        end = text.find(_VALUE_END, at)
        if at < 0:
            yield 0
        elif end < 0 or text[at - 1 : at] != _VALUE_END:
            yield encoded_tags_code(text)
        else:
            tags = text[at:end]
            code = known.get(tags)
            if code is None:
                code = known[tags] = encoded_tags_code(text)
            yield code


def _refuse(wrong: Flags, error: Callable[[int], Exception]) -> None:
    if wrong.any():
        raise error(int(np.argmax(wrong)))


def _illegal(remark: str) -> ResponseError:
    return response_error(ResponseCode.MESSAGE_ILLEGAL, remark)
