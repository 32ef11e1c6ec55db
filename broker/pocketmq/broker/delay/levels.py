"""Reads which delay level a message asks for."""

from __future__ import annotations

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.messages import properties as props


def delay_level_of(properties: str) -> int:
    """Returns the level that a message asks for, not clamped; 0 or less for delivery at once.

    Raises:
        ResponseError: 13, what it says is no number.
    """
    value = props.value_of(properties, props.DELAY)
    if value is None:
        return 0
    try:
        return int(value)
    except ValueError as e:
        raise response_error(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the message's property DELAY is {value[:32]!r}: it must be the number of a delay "
            f"level, 1 to 18 unless messageDelayLevel says otherwise",
        ) from e
