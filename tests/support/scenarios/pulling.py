"""Pulling and offsets on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio

from support.scenarios.parts import fresh, holds

from pocketmq.client import Admin, ClientInstance, Message, Producer, PullConsumer, PullStatus


async def pulls_and_offsets(namesrv: str) -> None:
    """Every status of a pull, filters, offsets by time and of the group."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        ClientInstance(namesrv) as instance,
        Admin(instance=instance) as admin,
        Producer(fresh("pg"), instance=instance) as producer,
        PullConsumer(group, instance=instance) as consumer,
    ):
        await admin.create_topic(topic, 1)
        (queue,) = await consumer.queues(topic)
        before_ms = instance.clock.now_ms()
        for i in range(20):
            await producer.send(Message(topic, b"%d" % i, tags="AB"[i % 2]), queue=queue)
        await holds(admin, topic, 20)
        assert (await consumer.min_offset(queue), await consumer.max_offset(queue)) == (0, 20)
        assert await consumer.search_offset(queue, before_ms - 60_000) == 0
        assert await consumer.search_offset(queue, before_ms + 3_600_000) == 20
        assert await consumer.earliest_store_time_ms(queue) >= before_ms - 1000
        only_b = await consumer.pull(queue, 0, expression="B")
        assert [m.tags for m in only_b.messages] == ["B"] * 10
        nothing = await consumer.pull(queue, 0, expression="C")
        assert (nothing.status, nothing.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 20)
        end = await consumer.pull(queue, 20)
        assert (end.status, end.next_offset) == (PullStatus.NO_NEW_MESSAGE, 20)
        beyond = await consumer.pull(queue, 99)
        assert (beyond.status, beyond.next_offset) == (PullStatus.OFFSET_ILLEGAL, 20)
        held = asyncio.ensure_future(consumer.pull(queue, 20, hold_ms=20_000))
        await producer.send(Message(topic, b"late"), queue=queue)
        assert [m.body for m in (await held).messages] == [b"late"]
        await consumer.commit(queue, 15)
        assert await consumer.committed_offset(queue) == 15
        (row,) = await admin.consume_stats(group, topic)
        assert (row.queue, row.broker_offset, row.consumer_offset, row.lag) == (queue, 21, 15, 6)
        await admin.delete_topic(topic)
