"""Message properties: ``name 0x01 value 0x02`` repeated (`common/message/MessageDecoder`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from pocketmq.protocol.errors import MessageSizeError, UsageError

NAME_END = "\x01"
VALUE_END = "\x02"
PROPERTIES_SIZE_MAX = 32767
"""The length field of a stored record has 16 bits with a sign."""

KEYS = "KEYS"
TAGS = "TAGS"
WAIT = "WAIT"
DELAY = "DELAY"
UNIQ_KEY = "UNIQ_KEY"
SHARDING_KEY = "__SHARDINGKEY"
CLUSTER = "CLUSTER"
MSG_REGION = "MSG_REGION"
TRACE_ON = "TRACE_ON"
REAL_TOPIC = "REAL_TOPIC"
REAL_QUEUE_ID = "REAL_QID"
RETRY_TOPIC = "RETRY_TOPIC"
DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC"
"""The topic of a dead letter, as RocketMQ's proxy notes it."""
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUME_TIME = "RECONSUME_TIME"
MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES"
TRANSACTION_PREPARED = "TRAN_MSG"
PRODUCER_GROUP = "PGROUP"
TRANSACTION_ID = "__transactionId__"
TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS"
MIN_OFFSET = "MIN_OFFSET"
MAX_OFFSET = "MAX_OFFSET"
TIMER_DELAY_SEC = "TIMER_DELAY_SEC"
TIMER_DELAY_MS = "TIMER_DELAY_MS"
TIMER_DELIVER_MS = "TIMER_DELIVER_MS"
TIMER_PROPERTIES = (TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS)
"""Properties that say when a message is to be delivered; the first one present counts."""
TIMER_OUT_MS = "TIMER_OUT_MS"
TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS"
TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS"
TIMER_DELETE_KEY = "TIMER_DEL_UNIQKEY"
BORN_TIMESTAMP = "BORN_TIMESTAMP"
TRACE_CONTEXT = "TRACE_CONTEXT"
POP_CK = "POP_CK"
FIRST_POP_TIME = "1ST_POP_TIME"
ORIGIN_GROUP = "ORIGIN_GROUP"
CORRELATION_ID = "CORRELATION_ID"
REPLY_TO_CLIENT = "REPLY_TO_CLIENT"
TTL = "TTL"
ARRIVE_TIME = "ARRIVE_TIME"
PUSH_REPLY_TIME = "PUSH_REPLY_TIME"
MESSAGE_TYPE = "MSG_TYPE"
REPLY = "reply"
"""The message type of replies."""
LAST_ERROR = "PQ_LAST_ERROR"
"""Why a consumer of PocketMQ's sent the message back the last time."""
REDRIVE_ID = "PQ_REDRIVE_ID"
"""The redrive that has sent a dead letter again the last time."""
REDRIVE_COUNT = "PQ_REDRIVE_COUNT"
"""How often a dead letter was sent again."""
REDRIVE_FROM = "PQ_REDRIVE_FROM"
"""Where the dead letter is that was sent again: ``brokerName:queueId:offset``."""
REDRIVE_EDITED = "PQ_REDRIVE_EDITED"
"""``true`` if the dead letter was changed when it was sent again."""


def encode(properties: Mapping[str, str]) -> str:
    """Joins properties to one string, each entry closed by 0x02.

    Raises:
        UsageError: a name or value holds one of the two separators, or is no string.
    """
    parts: list[str] = []
    for name, value in properties.items():
        parts += (name, NAME_END, value, VALUE_END)
    try:
        text = "".join(parts)
    except TypeError:
        raise UsageError(
            f"the names and values of properties are strings, convert these: "
            f"{ {n: v for n, v in properties.items() if not _are_text(n, v)}!r:.200}"
        ) from None
    count = len(properties)
    if text.count(NAME_END) == count and text.count(VALUE_END) == count:
        return text
    name = next(n for n, v in properties.items() if not _is_plain(n) or not _is_plain(v))
    raise UsageError(
        f"property {name!r} holds the character 0x01 or 0x02, which separate "
        f"properties on the wire: encode the value (base64, percent) before it is set"
    )


def encode_checked(properties: Mapping[str, str]) -> bytes:
    """Encodes properties as the UTF-8 bytes of a stored record.

    Raises:
        MessageSizeError: they are longer than 32,767 bytes.
        UsageError: they cannot be sent.
    """
    try:
        data = encode(properties).encode()
    except UnicodeEncodeError as e:
        raise UsageError(f"the properties are no Unicode text: {e}") from e
    if len(data) > PROPERTIES_SIZE_MAX:
        raise MessageSizeError("properties", len(data), PROPERTIES_SIZE_MAX)
    return data


def appended(properties: Mapping[str, object]) -> bytes:
    """Encodes properties so that they can stand behind those of any stored record."""
    # The last entry of a record need not be closed.
    return "".join([f"{VALUE_END}{n}{NAME_END}{v}" for n, v in properties.items()]).encode()


def _are_text(*values: object) -> bool:
    return all(isinstance(value, str) for value in values)


def _is_plain(text: str) -> bool:
    return NAME_END not in text and VALUE_END not in text


def decode(text: str) -> dict[str, str]:
    """Splits a string into properties; like RocketMQ, drops entries without a name or a value."""
    out: dict[str, str] = {}
    for entry in text.split(VALUE_END):
        name, _, value = entry.partition(NAME_END)
        if name and value:
            out[name] = value
    return out


def value_of(text: str, name: str) -> str | None:
    """Finds one property in an encoded string, without decoding the others."""
    mark = name + NAME_END
    start = 0 if text.startswith(mark) else text.find(VALUE_END + mark) + 1
    if start == 0 and not text.startswith(mark):
        return None
    start += len(mark)
    end = text.find(VALUE_END, start)
    return (text[start:] if end < 0 else text[start:end]) or None


@lru_cache(maxsize=4096)
def java_hash(text: str) -> int:
    """Computes Java's ``String.hashCode``: 32 bits with a sign, over UTF-16 code units."""
    h = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(data), 2):
        h = (31 * h + (data[i] << 8 | data[i + 1])) & 0xFFFFFFFF
    return h - 0x100000000 if h & 0x80000000 else h


def tags_code(tags: str | None) -> int:
    """Computes the number in an index entry by which a broker filters tags; 0 without tags."""
    return java_hash(tags) if tags else 0
