"""Messages of the service, as brokers store them, and back (`GrpcConverter`)."""

from __future__ import annotations

import hashlib
import zlib

from pocketmq.protocol import flags
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.compression import BODY_SIZE_MAX as UNPACKED_SIZE_MAX
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.proxy.checks import RESERVED_PROPERTIES
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal

BORN_HOST = "__BORNHOST"
PRIORITY = "_SYS_MSG_PRIORITY_"
LITE_TOPIC = "__LITE_TOPIC"

_GZIP_WINDOW = 31
_GZIP_START = b"\x1f\x8b"
_ZLIB_SPEED = 1

_NOT_SHOWN = RESERVED_PROPERTIES | {
    props.SHARDING_KEY,
    props.CHECK_IMMUNITY_TIME_IN_SECONDS,
    props.TRANSACTION_ID,
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
}
"""Apache's proxy shows those that stand here by name among the application's properties."""

TYPES = {
    "UNSPECIFIED": pb.MESSAGE_TYPE_UNSPECIFIED,
    "NORMAL": pb.NORMAL,
    "FIFO": pb.FIFO,
    "DELAY": pb.DELAY,
    "TRANSACTION": pb.TRANSACTION,
    "PRIORITY": pb.PRIORITY,
    "LITE": pb.LITE,
}

MIXED = "MIXED"


def type_of_properties(properties: dict[str, str]) -> str:
    """Returns the type of a message by what its properties say (`TopicMessageType`)."""
    if properties.get(props.TRANSACTION_PREPARED) == "true":
        return "TRANSACTION"
    if any(name in properties for name in (props.DELAY, *props.TIMER_PROPERTIES)):
        return "DELAY"
    if props.SHARDING_KEY in properties:
        return "FIFO"
    if PRIORITY in properties:
        return "PRIORITY"
    return "LITE" if LITE_TOPIC in properties else "NORMAL"


def properties_of(message: pb.Message, topic: str, address: str) -> dict[str, str]:
    """Returns the properties with which a message is stored.

    Args:
        message: to send.
        topic: its topic.
        address: of the client.
    """
    system = message.system_properties
    out = dict(message.user_properties)
    out[props.UNIQ_KEY] = system.message_id
    if system.HasField("tag"):
        out[props.TAGS] = system.tag
    if system.keys:
        out[props.KEYS] = " ".join(system.keys)
    if system.message_type == pb.TRANSACTION:
        out[props.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            seconds = system.orphaned_transaction_recovery_duration.seconds
            out[props.CHECK_IMMUNITY_TIME_IN_SECONDS] = str(seconds)
    if system.HasField("delivery_timestamp"):
        out[props.TIMER_DELIVER_MS] = str(system.delivery_timestamp.ToMilliseconds())
    if system.HasField("priority"):
        out[PRIORITY] = str(system.priority)
    if system.HasField("message_group"):
        out[props.SHARDING_KEY] = system.message_group
    if system.HasField("lite_topic"):
        out[LITE_TOPIC] = system.lite_topic
    if system.HasField("trace_context"):
        out[props.TRACE_CONTEXT] = system.trace_context
    out[BORN_HOST] = system.born_host or address
    out[props.PRODUCER_GROUP] = topic
    return out


def send_request(
    message: pb.Message, topic: str, queue_id: int, properties: dict[str, str], now_ms: int
) -> tuple[SendMessageV2Request, bytes]:
    """Makes the request that stores a message, and its body.

    Args:
        message: to send.
        topic, queue_id: where it goes.
        properties: as `properties_of` made them.
        now_ms: milliseconds since the epoch, for a message that says no time of its birth.

    Raises:
        Refusal: MESSAGE_CORRUPTED, the body does not unpack.
    """
    system = message.system_properties
    sys_flag, body = 0, message.body
    if system.body_encoding == pb.GZIP:
        sys_flag, body = flags.COMPRESSED, _as_zlib(body)
    if props.TRANSACTION_PREPARED in properties:
        sys_flag |= flags.TRANSACTION_PREPARED
    born_ms = system.born_timestamp.ToMilliseconds() or now_ms
    request = SendMessageV2Request(
        producer_group=topic,
        topic=topic,
        default_topic=names.AUTO_CREATE_TOPIC,
        default_topic_queue_nums=4,
        queue_id=queue_id,
        sys_flag=sys_flag,
        born_timestamp=born_ms,
        properties=props.encode(properties),
        reconsume_times=0,
    )
    return request, body


def _as_zlib(body: bytes) -> bytes:
    """A body that came under GZIP, as clients over remoting unpack it.

    Raises:
        Refusal: MESSAGE_CORRUPTED.
    """
    if not body.startswith(_GZIP_START):
        return body  # the C++ client sends zlib under that name
    inflater = zlib.decompressobj(_GZIP_WINDOW)
    try:
        plain = inflater.decompress(body, UNPACKED_SIZE_MAX + 1)
    except zlib.error as e:
        raise Refusal(pb.MESSAGE_CORRUPTED, f"the body is no gzip: {e}") from e
    if not inflater.eof:
        raise Refusal(
            pb.MESSAGE_CORRUPTED,
            f"the body is cut off, or unpacks to more than {UNPACKED_SIZE_MAX} bytes",
        )
    return zlib.compress(plain, _ZLIB_SPEED)


def received(message: ReceivedMessage, topic: str, handle: str, now_ms: int) -> pb.Message:
    """Makes the message that a consumer gets, its body unpacked.

    Args:
        message: as it is stored.
        topic: that the consumer asked for.
        handle: its receipt handle.
        now_ms: milliseconds since the epoch.
    """
    properties = message.properties
    out = pb.Message(topic=pb.Resource(name=topic), body=message.body)
    for name, value in properties.items():
        if name not in _NOT_SHOWN:
            out.user_properties[name] = value
    system = out.system_properties
    fill_system_properties(system, message)
    digest = hashlib.md5(message.body, usedforsecurity=False).hexdigest().upper()
    system.body_digest.type, system.body_digest.checksum = pb.MD5, digest
    system.receipt_handle = handle
    system.delivery_attempt = message.reconsume_times + 1
    deliver_ms = properties.get(props.TIMER_DELIVER_MS)
    if deliver_ms is not None and deliver_ms.isdecimal():
        system.delivery_timestamp.FromMilliseconds(int(deliver_ms))
    return out


def fill_system_properties(system: pb.SystemProperties, message: ReceivedMessage) -> None:
    """Says what is known of a stored message, besides its delivery."""
    properties = message.properties
    tag, keys = properties.get(props.TAGS), properties.get(props.KEYS)
    if tag:
        system.tag = tag
    if keys:
        system.keys.extend(key for key in keys.split(" ") if key)
    system.message_id = properties.get(props.UNIQ_KEY) or message.offset_msg_id
    is_packed = message.sys_flag & flags.COMPRESSED
    system.body_encoding = pb.GZIP if is_packed else pb.IDENTITY
    system.message_type = TYPES[type_of_properties(properties)]
    system.born_timestamp.FromMilliseconds(message.born_timestamp)
    system.born_host = properties.get(BORN_HOST) or message.born_host
    system.store_timestamp.FromMilliseconds(message.store_timestamp)
    system.store_host = message.store_host
    system.queue_id, system.queue_offset = message.queue_id, message.queue_offset
    if (group := properties.get(props.SHARDING_KEY)) is not None:
        system.message_group = group
    if (context := properties.get(props.TRACE_CONTEXT)) is not None:
        system.trace_context = context
    if (priority := properties.get(PRIORITY)) is not None and priority.isdecimal():
        system.priority = int(priority)
    origin, message_id = properties.get("DLQ_ORIGIN_TOPIC"), properties.get("DLQ_ORIGIN_MESSAGE_ID")
    if origin and message_id:
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = message_id
