"""The tags code of a record: what its index entry holds, so that filters need not read it."""

from __future__ import annotations

import struct

from pocketmq.protocol import names
from pocketmq.protocol import properties as props
from pocketmq.protocol.records import SYS_FLAG_AT, body_size_at

_MARK = props.TAGS.encode() + b"\x01"
_INT, _LONG = struct.Struct(">I"), struct.Struct(">q")

SCHEDULE_TOPIC = names.SCHEDULE_TOPIC.encode()
"""Records of this topic have the time at which they are due as their tags code."""


def encoded_tags_code(properties: bytes) -> int:
    """The tags code of encoded properties; 0 without tags.

    Appends and recovery use the same rule, so that an index made again equals the lost one.
    """
    if _MARK not in properties:
        return 0
    return props.tags_code(props.value_of(properties.decode("utf-8", "replace"), props.TAGS))


def deliver_time(data: bytes, position: int) -> int:
    """When the record of the schedule topic at a position is due, in milliseconds.

    It stands in the field that otherwise only transactions use (prepared transaction offset):
    computed again from the store time it would change with the broker's messageDelayLevel.
    """
    (sys_flag,) = _INT.unpack_from(data, position + SYS_FLAG_AT)
    (time_ms,) = _LONG.unpack_from(data, position + body_size_at(sys_flag) - _LONG.size)
    return int(time_ms)
