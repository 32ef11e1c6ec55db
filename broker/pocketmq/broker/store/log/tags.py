"""Computes the tags code of a record: its index entry has the code, for filters to go by."""

from __future__ import annotations

import struct

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import SYS_FLAG_AT, body_size_at
from pocketmq.protocol.names import names

TAGS_MARK = props.TAGS.encode() + b"\x01"
"""What is in all encoded properties with tags."""

_INT, _LONG = struct.Struct(">I"), struct.Struct(">q")

WAITING_TOPICS = frozenset(
    name.encode() for name in (names.SCHEDULE_TOPIC, names.TIMER_TOPIC, names.HALF_TOPIC)
)
"""Topics in which messages wait: their tags code is the record's prepared transaction offset."""


def encoded_tags_code(properties: bytes) -> int:
    """Computes the tags code of encoded properties; 0 without tags.

    Appends and recovery use the same rule, so that an index made again equals the lost one.
    """
    if TAGS_MARK not in properties:
        return 0
    return props.tags_code(props.value_of(properties.decode("utf-8", "replace"), props.TAGS))


def prepared_transaction_offset(data: bytes, position: int) -> int:
    """The prepared transaction offset of a record, which in the broker's own topics means more.

    In the schedule and the timer topic it is when the message is due, in milliseconds: computed
    again from the store time it would change with the broker's messageDelayLevel; for the recall of
    a timer it is negated. In the half topic it is the physical offset of the half message that the
    record continues; 0 for a first one.
    """
    (sys_flag,) = _INT.unpack_from(data, position + SYS_FLAG_AT)
    (value,) = _LONG.unpack_from(data, position + body_size_at(sys_flag) - _LONG.size)
    return int(value)
