"""Pops, acknowledgements and changes of invisible times, as clients send them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from support.brokers.broker_parts import GROUP, TOPIC, Client
from support.peers.transport import until

from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.receipts import (
    OrderedMessage,
    Origin,
    QueueOrigin,
    ReceiptHandle,
    decode_offsets,
    decode_order_counts,
    decode_start_offsets,
)
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.offsets import OffsetResponse, QueryConsumerOffsetRequest
from pocketmq.protocol.requests.popping import (
    ALL_QUEUES,
    AckMessageRequest,
    ChangeInvisibleTimeRequest,
    ChangeInvisibleTimeResponse,
    PopMessageRequest,
    PopMessageResponse,
)
from pocketmq.protocol.wire.command import Command

FOUND, NOTHING, FULL = 0, 210, 209
INVISIBLE_MS = 60_000


class Handed(NamedTuple):
    """A popped message with its receipt handle."""

    message: ReceivedMessage
    handle: ReceiptHandle

    @property
    def body(self) -> bytes:
        """What it holds."""
        return self.message.body

    @property
    def topic(self) -> str:
        """The real topic of the message."""
        if self.handle.origin is Origin.TOPIC:
            return TOPIC
        return names.pop_retry_topic(GROUP, TOPIC)


class Popped(NamedTuple):
    """The answer of a pop."""

    code: int
    header: PopMessageResponse
    messages: list[Handed]
    counts: dict[OrderedMessage, int]

    @property
    def bodies(self) -> list[bytes]:
        """What the messages hold."""
        return [handed.message.body for handed in self.messages]


def popped(answer: Command) -> Popped:
    """Takes the answer of a pop apart, as RocketMQ's clients do."""
    header = answer.read(PopMessageResponse)
    starts = decode_start_offsets(header.start_offset_info or "")
    offsets = decode_offsets(header.msg_offset_info or "")
    handed = []
    for message in decode_records(answer.body):
        is_retry = message.topic.startswith(names.RETRY_PREFIX)
        origin = Origin.RETRY_V1 if is_retry else Origin.TOPIC
        place = QueueOrigin(origin, message.queue_id)
        assert message.queue_offset in offsets[place]
        handle = ReceiptHandle(
            starts[place], header.pop_time, header.invisible_time, header.revive_qid, origin,
            "broker-a", message.queue_id, message.queue_offset,
        )  # fmt: skip
        handed.append(Handed(message, handle))
    counts = decode_order_counts(header.order_count_info or "")
    return Popped(answer.code, header, handed, counts)


def pop_request(**fields: Any) -> PopMessageRequest:
    """A pop of all queues that does not wait, but for the fields given."""
    given: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": TOPIC,
        "queue_id": ALL_QUEUES,
        "max_msg_nums": 32,
        "invisible_time": INVISIBLE_MS,
        "poll_time": 0,
        "born_time": 0,
        "init_mode": 0,
        "exp_type": "TAG",
        "exp": "*",
    }
    return PopMessageRequest(**(given | fields))


async def pop(client: Client, **fields: Any) -> Popped:
    """Pops once."""
    return popped(await client.call(pop_request(**fields)))


async def held_pop(client: Client, **fields: Any) -> asyncio.Task[Popped]:
    """Pops until a message is there; returns when the broker holds the pop."""
    held = len(client.broker.parts.waiting)
    task = asyncio.ensure_future(pop(client, **({"poll_time": 15_000} | fields)))
    await until(lambda: len(client.broker.parts.waiting) > held or task.done())
    assert not task.done(), task.result()
    return task


async def ack(client: Client, *handed: Handed) -> None:
    """Acknowledges messages, which must succeed."""
    for one in handed:
        await client.ask(ack_request(one))


def ack_request(one: Handed, **fields: Any) -> AckMessageRequest:
    """An acknowledgement, but for the fields given."""
    given: dict[str, Any] = {
        "consumer_group": GROUP,
        "topic": one.topic,
        "queue_id": one.handle.queue_id,
        "extra_info": one.handle.encode(),
        "offset": one.handle.queue_offset,
    }
    return AckMessageRequest(**(given | fields))


async def renew(client: Client, one: Handed, invisible_ms: int, **fields: Any) -> Handed:
    """Sets an invisible time anew; returns the message with its new handle."""
    request = ChangeInvisibleTimeRequest(
        consumer_group=GROUP,
        topic=one.topic,
        queue_id=one.handle.queue_id,
        extra_info=one.handle.encode(),
        offset=one.handle.queue_offset,
        invisible_time=invisible_ms,
        **fields,
    )
    answer = (await client.ask(request)).read(ChangeInvisibleTimeResponse)
    handle = one.handle._replace(
        pop_time=answer.pop_time,
        invisible_time=answer.invisible_time,
        revive_qid=answer.revive_qid,
    )
    return one._replace(handle=handle)


async def committed(client: Client, queue_id: int = 0, topic: str = TOPIC) -> int:
    """The group's committed offset."""
    request = QueryConsumerOffsetRequest(consumer_group=GROUP, topic=topic, queue_id=queue_id)
    return (await client.ask(request)).read(OffsetResponse).offset


async def fill(client: Client, bodies: Sequence[bytes], **fields: Any) -> None:
    """Sends messages to queue 0, or as the fields say."""
    for body in bodies:
        await client.send(body, **fields)
