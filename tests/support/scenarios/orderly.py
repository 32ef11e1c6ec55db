"""Consuming in order on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio
from typing import Any

from support.scenarios.parts import FROM_FIRST, Inbox, first_message, fresh

from pocketmq.client import (
    Admin,
    Message,
    MessageQueue,
    OrderlyResult,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)


class OrderlyInbox(Inbox):
    """A listener that fails every seventh message once, and notes what it handled, in order."""

    def __init__(self) -> None:
        super().__init__()
        self._failed: set[str] = set()

    async def __call__(self, messages: list[ReceivedMessage]) -> OrderlyResult:
        (message,) = messages
        if message.queue_offset % 7 == 3 and message.msg_id not in self._failed:
            self._failed.add(message.msg_id)
            return OrderlyResult.SUSPEND
        await super().__call__(messages)
        return OrderlyResult.SUCCESS


async def consumes_in_order(namesrv: str) -> None:
    """Each queue's messages one after the other, also when one fails and when a member joins."""
    topic, group = fresh("topic"), fresh("cg")
    settings: dict[str, Any] = {
        "consume_from_where": FROM_FIRST,
        "orderly": True,
        "suspend_current_queue_time_ms": 10,
    }
    inbox = OrderlyInbox()
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 4)
        queues = await producer.queues(topic)
        count = 20
        ends: dict[MessageQueue, int] = {}  # a send whose answer was late has been repeated

        async def send(queue: MessageQueue) -> None:
            result = await producer.send(Message(topic, b"%d" % count), queue=queue)
            ends[queue] = result.queue_offset + 1

        for _ in range(count):
            for queue in queues:
                await send(queue)
        async with PushConsumer(group, namesrv, listener=inbox, **settings) as first:
            first.subscribe(topic)
            await inbox.holds(count * len(queues))
            assert {m.reconsume_times for m in inbox.messages if m.queue_offset % 7 == 3} == {1}
            async with PushConsumer(group, namesrv, listener=inbox, **settings) as second:
                second.subscribe(topic)
                while not second.queues or len(first.queues) + len(second.queues) != len(queues):
                    count += 1
                    for queue in queues:
                        await send(queue)
                await inbox.holds(sum(ends.values()))
        for queue in queues:
            offsets = [m.queue_offset for m in inbox.messages if m.queue == queue]
            assert offsets == list(range(ends[queue])), (queue, ends[queue], offsets)
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        await admin.delete_topic(topic)


async def gives_up_in_order(namesrv: str) -> None:
    """After its repetitions a message goes to the dead letters, and the next one comes."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[tuple[bytes, int]] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> OrderlyResult:
        attempts.extend((m.body, m.reconsume_times) for m in messages)
        if messages[0].body == b"poison":
            return OrderlyResult.SUSPEND
        done.set()
        return OrderlyResult.SUCCESS

    settings: dict[str, Any] = {
        "consume_from_where": FROM_FIRST,
        "orderly": True,
        "max_reconsume_times": 2,
        "suspend_current_queue_time_ms": 10,
    }
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as puller,
    ):
        await admin.create_topic(topic, 1)
        (queue, *_) = await producer.queues(topic)
        for body in (b"poison", b"next"):
            await producer.send(Message(topic, body, keys="k"), queue=queue)
        async with PushConsumer(group, namesrv, listener=listener, **settings) as consumer:
            consumer.subscribe(topic)
            await done.wait()
            dead = await first_message(puller, f"%DLQ%{group}")
        assert attempts == [(b"poison", 0), (b"poison", 1), (b"poison", 2), (b"next", 0)]
        assert (dead.body, dead.keys) == (b"poison", ("k",))
        assert dead.properties["RETRY_TOPIC"] == topic
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        await admin.delete_topic(topic)
