"""Records that stand for others which are lost, so that a log has no gap where offsets have one."""

from __future__ import annotations

import struct

from pocketmq.broker.store.log.segment import physical_offset
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.messages.records import RECORD_SIZE_MIN, SYS_FLAG_AT, encode_record

LOST = 1 << 30
"""The system flag of such a record, which no message has; consumers never get the record."""

_INT = struct.Struct(">I")
_NO_HOST = bytes(IPV4_HOST_SIZE)


def is_lost(data: bytes | memoryview, position: int) -> bool:
    """Tells whether the record at a position of some data stands for one that is lost."""
    return bool(_INT.unpack_from(data, position + SYS_FLAG_AT)[0] & LOST)


def lost_records(
    topic: bytes,
    queue_id: int,
    log_number: int,
    start: tuple[int, int],
    end: tuple[int, int],
    timestamp: int,
) -> bytes | None:
    """Makes the records that take the place of lost ones.

    Args:
        topic, queue_id: of the queue.
        log_number: of its log.
        start: (position, queue offset) of the first lost record.
        end: the same behind the last one.
        timestamp: their store time, milliseconds.

    Returns:
        None if so many records do not fit there.
    """
    (position, offset), (end_position, end_offset) = start, end
    count, fixed = end_offset - offset, RECORD_SIZE_MIN + len(topic)
    if count < 1 or end_position - position < count * fixed:
        return None
    out = []
    while count:
        size = (end_position - position) // count
        out.append(
            encode_record(
                topic, queue_id, 0, offset, physical_offset(log_number, position), LOST, timestamp,
                _NO_HOST, timestamp, _NO_HOST, 0, 0, bytes(size - fixed), b"",
            )
        )  # fmt: skip
        position, offset, count = position + len(out[-1]), offset + 1, count - 1
    return b"".join(out)
