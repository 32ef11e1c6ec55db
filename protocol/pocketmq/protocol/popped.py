"""What a pop has brought: its messages, and the receipt handle of each."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.receipts import (
    OrderedMessage,
    Origin,
    QueueOrigin,
    ReceiptHandle,
    decode_order_counts,
    decode_start_offsets,
)
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.popping import PopMessageResponse


class Popped(NamedTuple):
    """A message that was popped, and what names this delivery of it."""

    message: ReceivedMessage
    handle: ReceiptHandle


def topic_read(origin: Origin, group: str, topic: str) -> str:
    """Returns the topic that a message was read from: its own, or a retry topic of the group."""
    if origin is Origin.RETRY_V1:
        return names.pop_retry_topic(group, topic)
    if origin is Origin.RETRY_V2:
        return names.pop_retry_topic_v2(group, topic)
    return topic


def popped_messages(
    header: PopMessageResponse, body: bytes, group: str, topic: str, broker_name: str
) -> list[Popped]:
    """Reads a pop's answer (`MQClientAPIImpl#processPopResponse`).

    A broker of Apache's that keeps its checkpoints in files has put the handle into messages of
    retry topics itself. Messages of an ordered pop tell how often they were tried.

    Args:
        header, body: of the answer.
        group, topic: that asked, and that was asked for.
        broker_name: which has answered.

    Raises:
        ContentError: the answer makes no sense.
    """
    starts = decode_start_offsets(header.start_offset_info or "")
    counts = decode_order_counts(header.order_count_info or "")
    out = []
    for message in decode_records(body, broker_name):
        given = message.properties.get(props.POP_CK)
        if given:
            handle = ReceiptHandle.decode(given)
        else:
            handle = _handle(message, header, starts, group, topic, broker_name)
        if handle.is_ordered:
            own = OrderedMessage(handle.origin, handle.queue_id, handle.queue_offset)
            of_queue = OrderedMessage(handle.origin, handle.queue_id, None)
            message.reconsume_times = counts.get(own) or counts.get(of_queue, 0)
        out.append(Popped(message, handle))
    return out


def _handle(
    message: ReceivedMessage,
    header: PopMessageResponse,
    starts: dict[QueueOrigin, int],
    group: str,
    topic: str,
    broker_name: str,
) -> ReceiptHandle:
    origin = Origin.TOPIC
    if message.topic.startswith(names.RETRY_PREFIX) and message.topic != topic:
        is_v2 = message.topic == names.pop_retry_topic_v2(group, topic)
        origin = Origin.RETRY_V2 if is_v2 else Origin.RETRY_V1
    start = starts.get(QueueOrigin(origin, message.queue_id), message.queue_offset)
    return ReceiptHandle(
        start, header.pop_time, header.invisible_time, header.revive_qid, origin,
        broker_name, message.queue_id, message.queue_offset,
    )  # fmt: skip
