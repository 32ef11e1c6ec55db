"""Sending on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio

from support.scenarios.parts import HOLD_MS, fresh, holds

from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    Producer,
    PullConsumer,
    SendResult,
    SendStatus,
    by_hash,
)
from pocketmq.protocol.errors import PocketMQError


async def sends_of_all_kinds(namesrv: str) -> None:
    """Awaited, with a callback, one-way, in batches, to queues; all are stored as sent."""
    topic = fresh("topic")
    async with (
        ClientInstance(namesrv) as instance,
        Admin(instance=instance) as admin,
        Producer(fresh("pg"), instance=instance) as producer,
        PullConsumer(fresh("cg"), instance=instance) as consumer,
    ):
        await admin.create_topic(topic, 4)
        result = await producer.send(
            Message(topic, b"one", tags="A", keys=["k1", "k2"], properties={"colour": "blau ü"})
        )
        assert result.status is SendStatus.SEND_OK
        (one,) = (await consumer.pull(result.queue, result.queue_offset, hold_ms=HOLD_MS)).messages
        assert (one.body, one.tags, one.keys) == (b"one", "A", ("k1", "k2"))
        assert one.properties["colour"] == "blau ü"
        assert one.msg_id == result.msg_id
        assert one.offset_msg_id == result.offset_msg_id

        outcome: asyncio.Future[SendResult | PocketMQError] = asyncio.Future()
        producer.send_async(Message(topic, b"two"), outcome.set_result)
        sent = await outcome
        assert isinstance(sent, SendResult)
        large = bytes(range(256)) * 400
        third = sent.queue._replace(queue_id=2)
        packed = await producer.send(Message(topic, large), queue=third)
        assert packed.queue.queue_id == 2
        found = await consumer.pull(packed.queue, packed.queue_offset, hold_ms=HOLD_MS)
        assert found.messages[0].body == large
        keyed = set()
        for _ in range(5):
            keyed.add((await producer.send(Message(topic, b"k"), selector=by_hash, arg=7)).queue)
        assert len(keyed) == 1
        batch = await producer.send_batch([Message(topic, b"batch %d" % i) for i in range(10)])
        assert [r.count for r in batch] == [10]
        await holds(admin, topic, 1 + 1 + 1 + 5 + 10)
        pulled = await consumer.pull(batch[0].queue, batch[0].queue_offset, hold_ms=HOLD_MS)
        assert [m.body for m in pulled.messages] == [b"batch %d" % i for i in range(10)]
        assert ",".join(m.msg_id for m in pulled.messages) == batch[0].msg_id
        await producer.send_oneway(Message(topic, b"oneway", tags="O"), queue=packed.queue)
        await holds(admin, topic, 1 + 1 + 1 + 5 + 10 + 1)
        last = await consumer.pull(packed.queue, packed.queue_offset + 1, expression="O")
        assert [m.body for m in last.messages] == [b"oneway"]
        assert (await admin.view_message(result.offset_msg_id)).body == b"one"
        await admin.delete_topic(topic)


async def large_batches_are_split(namesrv: str) -> None:
    """More than 4 MiB of small messages in one call."""
    topic = fresh("topic")
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        results = await producer.send_batch(
            [Message(topic, b"x") for _ in range(40_000)], timeout_ms=30_000
        )
        assert len(results) > 1
        assert sum(r.count for r in results) == 40_000
        await holds(admin, topic, 40_000)
        await admin.delete_topic(topic)
