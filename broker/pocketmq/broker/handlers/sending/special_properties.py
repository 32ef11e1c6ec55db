"""Properties that ask for more than that a message is stored as it is."""

from __future__ import annotations

from pocketmq.broker.delay.levels import delay_level_of
from pocketmq.protocol.messages import properties as props

BROKER_PROPERTIES = (props.MSG_REGION, props.TRACE_ON, props.CLUSTER, props.POP_CK)
"""What brokers add: a message that has one of these was stored before, and comes back."""

_REGION, _TRACE, _CLUSTER, _POP = BROKER_PROPERTIES
_DELAY, _TIMER, _TRANSACTION = props.DELAY, "TIMER_", props.TRANSACTION_PREPARED
assert all(name.startswith(_TIMER) for name in props.TIMER_PROPERTIES)

_MARKS = _DELAY.encode(), _TIMER.encode(), _TRANSACTION.encode()

_ASKS_FOR_NOTHING = (None, "0", "false")
"""Some SDKs set the properties of timers to these on every message."""


def is_special(properties: str) -> bool:
    """Whether a message may be delayed, transactional, or come back.

    Plain searches, spelt out, because every message passes here; a name that only looks like one
    of these costs a closer look and nothing else.
    """
    return (
        _DELAY in properties
        or _TIMER in properties
        or _TRANSACTION in properties
        or _REGION in properties
        or _TRACE in properties
        or _CLUSTER in properties
        or _POP in properties
    )


def holds_special(properties: bytes) -> bool:
    """Whether any of a batch's messages may be delayed or transactional.

    Args:
        properties: of all messages together, encoded.
    """
    delay, timer, transaction = _MARKS
    return delay in properties or timer in properties or transaction in properties


def delay_property(properties: str) -> str | None:
    """The property by which a message asks for a later delivery; None for at once.

    Raises:
        ResponseError: 13, the delay level is no number.
    """
    if delay_level_of(properties) > 0:
        return props.DELAY
    for name in props.TIMER_PROPERTIES:
        if props.value_of(properties, name) not in _ASKS_FOR_NOTHING:
            return name
    return None
