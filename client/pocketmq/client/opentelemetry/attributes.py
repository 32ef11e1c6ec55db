"""Attributes of spans, by OpenTelemetry's semantic conventions for messaging and RocketMQ."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.trace import Span, Status, StatusCode
from opentelemetry.util.types import AttributeValue

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.trace import MessageType

SYSTEM = "messaging.system"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
DESTINATION = "messaging.destination.name"
QUEUE_ID = "messaging.destination.partition.id"
GROUP = "messaging.consumer.group.name"
MESSAGE_ID = "messaging.message.id"
MESSAGE_COUNT = "messaging.batch.message_count"
NAMESPACE = "messaging.rocketmq.namespace"
MESSAGE_TYPE = "messaging.rocketmq.message.type"
TAG = "messaging.rocketmq.message.tag"
KEYS = "messaging.rocketmq.message.keys"
MESSAGE_GROUP = "messaging.rocketmq.message.group"
DELAY_LEVEL = "messaging.rocketmq.message.delay_time_level"
DELIVERY_MS = "messaging.rocketmq.message.delivery_timestamp"
SERVER = "server.address"
PORT = "server.port"
ERROR_TYPE = "error.type"
RECONSUME_TIMES = "pocketmq.message.reconsume_times"
"""How often a message had been handed out before; the conventions have no name for that."""

Attributes = dict[str, AttributeValue]

OTHER_TYPES = {
    MessageType.DELAY: "delay",
    MessageType.TRANSACTION_HALF: "transaction",
}
"""Types by the conventions' words; further ones are "fifo", with a sharding key, or "normal"."""


def of_operation(name: str, topic: str, namespace: str) -> Attributes:
    """Returns the attributes that every span has; the conventions type operations by our names."""
    return {
        SYSTEM: "rocketmq",
        OPERATION_NAME: name,
        OPERATION_TYPE: name,
        DESTINATION: topic,
        NAMESPACE: namespace,
    }


def of_message(message: Message) -> Attributes:
    """Returns the attributes of one message, sent or received."""
    properties = message.properties
    found: Attributes = {}
    for attribute, name in ((MESSAGE_ID, props.UNIQ_KEY), (TAG, props.TAGS)):
        if value := properties.get(name):
            found[attribute] = value
    if isinstance(message, ReceivedMessage):
        found[MESSAGE_ID] = message.msg_id
        if message.reconsume_times:
            found[RECONSUME_TIMES] = message.reconsume_times
    if keys := properties.get(props.KEYS, "").split():
        found[KEYS] = keys
    if group := properties.get(props.SHARDING_KEY):
        found[MESSAGE_GROUP] = group
    for attribute, name in ((DELAY_LEVEL, props.DELAY), (DELIVERY_MS, props.TIMER_DELIVER_MS)):
        if (number := properties.get(name, "")).isdecimal():
            found[attribute] = int(number)
    return found


def of_type(message: Message, message_type: MessageType) -> Attributes:
    """Returns the attribute of a sent message's type."""
    plain = "fifo" if props.SHARDING_KEY in message.properties else "normal"
    return {MESSAGE_TYPE: OTHER_TYPES.get(message_type, plain)}


def of_broker(broker_addr: str) -> Attributes:
    """Returns the attributes of a broker's address, ``host:port``."""
    host, _, port = broker_addr.rpartition(":")
    return {SERVER: host.strip("[]"), PORT: int(port)}


def of_consumed(messages: Sequence[ReceivedMessage], queue: MessageQueue, group: str) -> Attributes:
    """Returns the attributes of messages that a consumer got from a queue."""
    found: Attributes = {GROUP: group}
    if queue.queue_id >= 0:  # a pop asks all queues of a broker
        found[QUEUE_ID] = str(queue.queue_id)
    if len(messages) == 1:
        return found | of_message(messages[0])
    return found | {MESSAGE_COUNT: len(messages)}


def set_failed(span: Span, kind: str, description: str | None = None) -> None:
    """Says of a span that its operation failed.

    Args:
        kind: of the failure, of few possible ones.
        description: for people.
    """
    span.set_attribute(ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR, description))
