"""Messages of requests, as a producer sends them."""

from __future__ import annotations

from collections.abc import Iterable

from pocketmq.client import Message, MessageQueue, Producer, SendResult
from pocketmq.console.api.bodies.messages import NewMessage, Sent
from pocketmq.protocol.errors import UsageError


async def send_all(
    producer: Producer, topic: str, messages: Iterable[NewMessage]
) -> list[SendResult]:
    """Sends messages one after the other; checks all of them before the first is sent.

    Raises:
        UsageError: the fields of one do not fit; nothing was sent.
        OperatingError: one cannot be sent; those before it are.
    """
    checked = [_outgoing(topic, new) for new in messages]
    return [await producer.send(message, queue=queue) for message, queue in checked]


def sent_of(result: SendResult) -> Sent:
    """Tells of a message that was sent."""
    return Sent(
        status=result.status.name,
        msg_id=result.msg_id,
        broker=result.queue.broker_name,
        queue=result.queue.queue_id,
        offset=result.queue_offset,
        recall_handle=result.recall_handle,
    )


def _outgoing(topic: str, new: NewMessage) -> tuple[Message, MessageQueue | None]:
    """Makes the message to send, and its queue if it names one.

    Raises:
        UsageError: the fields do not fit.
    """
    message = new.message(topic)
    given = Message(
        topic,
        sharding_key=new.sharding_key,
        delay_level=new.delay_level,
        delay_ms=new.delay_ms,
        deliver_at_ms=new.deliver_at_ms,
    )
    message.properties.update(given.properties)
    if (new.broker is None) != (new.queue is None):
        raise UsageError("give broker and queue together, or none of them")
    if new.broker is None or new.queue is None:
        return message, None
    return message, MessageQueue(topic, new.broker, new.queue)
