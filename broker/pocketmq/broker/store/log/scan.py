"""Reads the sound records of a segment one after the other, for recovery, check and dump."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.lost_records import is_lost
from pocketmq.broker.store.log.segment import HEADER_SIZE, Segment, physical_offset
from pocketmq.broker.store.log.tags import (
    WAITING_TOPICS,
    encoded_tags_code,
    prepared_transaction_offset,
)
from pocketmq.protocol.messages.records import (
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    check_record,
    read_store_timestamp,
    topic_and_properties,
)

_OFFSETS = struct.Struct(">qq")
assert PHYSICAL_OFFSET_AT == QUEUE_OFFSET_AT + 8

READ_SIZE = 4 * 1024 * 1024
"""Bytes that a scan reads at once, unless a record is larger."""

RECORD_SIZE_MAX = 17 * 1024 * 1024
"""No record is larger: it came in one frame of 16 MiB."""


class ScannedRecord(NamedTuple):
    """A sound record that a scan found; `is_lost`: it stands for one that is not there any more."""

    position: int
    size: int
    offset: int
    tags_code: int
    timestamp: int
    is_lost: bool


def scan(files: Files, segment: Segment, position: int, offset: int) -> Iterator[ScannedRecord]:
    """Yields a segment's sound records from a record's position on, up to the first bad one."""
    base = segment.base_position - HEADER_SIZE
    window, window_position, path = b"", position, segment.log_file
    is_last = False
    while True:
        at = position - window_position
        size = check_record(window, at, len(window)) if window else 0
        if not size and (at or not window) and not is_last:
            # It may only be cut off by the window: look once more with the record at its start.
            left = files.size(path) - (position - base)
            is_last = left <= READ_SIZE
            window = files.read(path, position - base, max(min(left, READ_SIZE), 0))
            announced = int.from_bytes(window[:4], "big")
            if READ_SIZE < announced <= RECORD_SIZE_MAX:
                window = files.read(path, position - base, announced)
            window_position, at = position, 0
            size = check_record(window, 0, len(window))
        if not size:
            return
        queue_offset, physical = _OFFSETS.unpack_from(window, at + QUEUE_OFFSET_AT)
        if queue_offset != offset or physical != physical_offset(segment.log_number, position):
            return
        yield ScannedRecord(
            position,
            size,
            offset,
            record_tags_code(window, at),
            read_store_timestamp(window, at),
            is_lost(window, at),
        )
        position += size
        offset += 1


def record_tags_code(data: bytes, position: int) -> int:
    """Computes the tags code of the record at a position of some data."""
    topic, properties = topic_and_properties(data, position)
    if topic in WAITING_TOPICS:
        return prepared_transaction_offset(data, position)
    return encoded_tags_code(properties)
