"""The rules of half messages: their properties, and the real message that a commit stores."""

from __future__ import annotations

from pocketmq.broker.appending.stored_message import StoredMessage, with_properties
from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props

_DIGITS_MAX = 18
"""Longer ones mean for ever anyway, and no arithmetic with them can be long."""

CHECK_TIMES_DIGITS_MAX = 10

HALF_PROPERTIES_SIZE_MAX = (
    props.PROPERTIES_SIZE_MAX - len(props.TRANSACTION_CHECK_TIMES) - 2 - CHECK_TIMES_DIGITS_MAX
)
"""Bytes of a half message's properties: the rest is for the number of checks."""


def asks_for_transaction(properties: str) -> bool:
    """Whether encoded properties make their message a transactional one."""
    return (props.value_of(properties, props.TRANSACTION_PREPARED) or "").lower() == "true"


def half_properties(properties: str, topic: str, queue_id: int, transaction_id: str) -> str:
    """The properties of a half message (`TransactionalMessageBridge#parseHalfMessageInner`).

    Args:
        properties: as the message would be stored.
        topic, queue_id: where it is to be, once it is committed.
        transaction_id: its unique key.
    """
    return with_properties(
        properties,
        {
            props.TRANSACTION_ID: transaction_id,
            props.REAL_TOPIC: topic,
            props.REAL_QUEUE_ID: str(queue_id),
        },
    )


def real_message(half: StoredMessage) -> StoredMessage:
    """The message that a commit stores (`EndTransactionProcessor#endMessageTransaction`).

    RocketMQ's, too, still has TRAN_MSG.
    """
    changes = dict.fromkeys((props.REAL_TOPIC, props.REAL_QUEUE_ID))
    return half.with_changes(changes)._replace(
        sys_flag=half.sys_flag & ~flags.TRANSACTION_MASK | flags.TRANSACTION_COMMIT
    )


def with_check_times(half: StoredMessage, times: int) -> StoredMessage:
    """The half message with the number of times that producers were asked about it."""
    return half.with_changes({props.TRANSACTION_CHECK_TIMES: str(times)})


def check_times(properties: str) -> int:
    """How often producers were asked about a half message."""
    return max(0, _number(props.value_of(properties, props.TRANSACTION_CHECK_TIMES)) or 0)


def immunity_ms(properties: str) -> int | None:
    """How long after its birth a half message is left alone; None if it does not say."""
    text = props.value_of(properties, props.CHECK_IMMUNITY_TIME_IN_SECONDS)
    seconds = _number(text)
    return None if seconds is None or seconds == -1 else seconds * 1000


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text[:_DIGITS_MAX])
    except ValueError:
        return None
