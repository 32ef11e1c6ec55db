"""Checks of names and of messages to send, in RocketMQ's order (`GrpcValidator`)."""

from __future__ import annotations

import unicodedata

from pocketmq.protocol.errors import IllegalNameError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names import names
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal

BODY_SIZE_MAX = 4 * 1024 * 1024
USER_PROPERTIES_MAX = 128
PROPERTIES_SIZE_MAX = 16_384
MESSAGE_GROUP_SIZE_MAX = 64
RECOVERY_S_MAX = 3600
DELAY_MS_MAX = 86_400_000
"""RocketMQ's limits (`ProxyConfig`)."""

RESERVED_PROPERTIES = frozenset(
    {
        props.KEYS, props.TAGS, props.WAIT, props.DELAY, props.UNIQ_KEY, props.RETRY_TOPIC,
        props.REAL_TOPIC, props.REAL_QUEUE_ID, props.TRANSACTION_PREPARED, props.PRODUCER_GROUP,
        props.MIN_OFFSET, props.MAX_OFFSET, props.ORIGIN_MESSAGE_ID, props.RECONSUME_TIME,
        props.MSG_REGION, props.TRACE_ON, props.MAX_RECONSUME_TIMES, props.POP_CK,
        props.FIRST_POP_TIME, props.CLUSTER, props.TRACE_CONTEXT, props.BORN_TIMESTAMP,
        props.CORRELATION_ID, props.REPLY_TO_CLIENT, props.TTL, props.ARRIVE_TIME,
        props.PUSH_REPLY_TIME, props.MESSAGE_TYPE, props.ORIGIN_GROUP, props.TIMER_DELIVER_MS,
        props.TIMER_DELAY_MS, props.TIMER_DELAY_SEC, props.TIMER_OUT_MS, props.TIMER_ENQUEUE_MS,
        props.TIMER_DEQUEUE_MS, props.TIMER_DELETE_KEY, "BUYER_ID", "TRANSFER_FLAG",
        "CORRECTION_FLAG", "MQ2_FLAG", "UNIQUE_MSG_QUERY_FLAG", "EXTEND_UNIQ_INFO",
        "CONSUME_START_TIME", "INNER_NUM", "INNER_BASE", "DUP_INFO", "POP_CK_OFFSET", "__BORNHOST",
        "MSG_BORN_TIME", "REDIRECT", "__LITE_TOPIC", "_SYS_MSG_PRIORITY_", "DLQ_ORIGIN_TOPIC",
        "DLQ_ORIGIN_MESSAGE_ID", "PROPERTY_FORWARD_QUEUE_ID", "TRANSACTION_PREPARED_QUEUE_OFFSET",
        props.CHECK_IMMUNITY_TIME_IN_SECONDS,
    }
)  # fmt: skip
"""Properties that are not the application's."""


def topic_of(resource: pb.Resource) -> str:
    """Returns the name of a topic that clients may use.

    Raises:
        Refusal: ILLEGAL_TOPIC.
    """
    name = resource.name
    if not name or name.isspace():
        raise Refusal(pb.ILLEGAL_TOPIC, "The specified topic is blank")
    try:
        names.check_topic(name)
    except IllegalNameError as e:
        raise Refusal(
            pb.ILLEGAL_TOPIC,
            f"The specified topic[{name:.200}] contains illegal characters, allowing only "
            f"^[%|a-zA-Z0-9_-]+$, or is longer than {names.TOPIC_LENGTH_MAX}: {e}",
        ) from e
    if names.is_system_topic(name):
        raise Refusal(pb.ILLEGAL_TOPIC, f"cannot access system topic {name}")
    return name


def group_of(resource: pb.Resource) -> str:
    """Returns the name of a group that clients may use.

    Raises:
        Refusal: ILLEGAL_CONSUMER_GROUP.
    """
    name = resource.name
    if not name or name.isspace():
        raise Refusal(pb.ILLEGAL_CONSUMER_GROUP, "the specified group is blank")
    try:
        names.check_group(name)
    except IllegalNameError as e:
        raise Refusal(
            pb.ILLEGAL_CONSUMER_GROUP,
            f"The specified group[{name:.200}] contains illegal characters, allowing only "
            f"^[%|a-zA-Z0-9_-]+$, or is longer than {names.GROUP_LENGTH_MAX}: {e}",
        ) from e
    if name in names.BUILT_IN_GROUPS:
        raise Refusal(pb.ILLEGAL_CONSUMER_GROUP, f"cannot use system consumer group {name}")
    return name


def check_message(message: pb.Message, now_ms: int) -> None:
    """Checks a message to send.

    Args:
        message: to be checked.
        now_ms: milliseconds since the epoch.

    Raises:
        Refusal: the message cannot be sent; code and text say why.
    """
    system = message.system_properties
    if not message.body:
        raise Refusal(pb.MESSAGE_BODY_EMPTY, "message body cannot be empty")
    if len(message.body) > BODY_SIZE_MAX:
        raise Refusal(
            pb.MESSAGE_BODY_TOO_LARGE, f"message body cannot exceed the max {BODY_SIZE_MAX}"
        )
    if message.user_properties or system.keys or system.tag:
        _check_properties(message)
    if not system.message_id.strip():
        raise Refusal(pb.ILLEGAL_MESSAGE_ID, "message id cannot be blank")
    if system.orphaned_transaction_recovery_duration.seconds > RECOVERY_S_MAX:
        raise Refusal(
            pb.BAD_REQUEST, f"max transaction recovery duration is {RECOVERY_S_MAX} seconds"
        )
    if system.HasField("delivery_timestamp"):
        wait_ms = system.delivery_timestamp.ToMilliseconds() - now_ms
        if wait_ms > DELAY_MS_MAX:
            raise Refusal(
                pb.ILLEGAL_DELIVERY_TIME, f"the max delay time is {DELAY_MS_MAX // 1000} seconds"
            )
    if system.HasField("message_group"):
        _check_message_group(system.message_group)


def _check_properties(message: pb.Message) -> None:
    system, properties = message.system_properties, message.user_properties
    if len(properties) > USER_PROPERTIES_MAX:
        raise Refusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"too many user properties, the max is {USER_PROPERTIES_MAX}",
        )
    size = 0
    for name, value in properties.items():
        if name in RESERVED_PROPERTIES:
            raise Refusal(pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property is used by system: {name}")
        if not name or _has_control(name) or _has_control(value):
            raise Refusal(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY,
                f"the property {name!r:.80} is empty or has a control character",
            )
        size += len(name.encode()) + len(value.encode())
    if system.HasField("tag"):
        tag = system.tag
        if not tag.strip() or "|" in tag or _has_control(tag):
            raise Refusal(
                pb.ILLEGAL_MESSAGE_TAG,
                f"the tag {tag!r:.80} is blank, or has a | or a control character",
            )
        size += len(tag.encode())
    for key in system.keys:
        if not key.strip() or _has_control(key):
            raise Refusal(
                pb.ILLEGAL_MESSAGE_KEY, f"the key {key!r:.80} is blank or has a control character"
            )
        size += len(key.encode())
    if size > PROPERTIES_SIZE_MAX:
        raise Refusal(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, tag and keys have {size} bytes, the max is {PROPERTIES_SIZE_MAX}",
        )


def _check_message_group(group: str) -> None:
    if not group.strip() or _has_control(group):
        raise Refusal(
            pb.ILLEGAL_MESSAGE_GROUP, "the message group is blank or has a control character"
        )
    if len(group.encode()) >= MESSAGE_GROUP_SIZE_MAX:
        raise Refusal(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"message group exceed the max size {MESSAGE_GROUP_SIZE_MAX}",
        )


def _has_control(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(c) == "Cc" for c in text)
