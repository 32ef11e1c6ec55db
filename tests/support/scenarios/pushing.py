"""Consumers that are pushed to on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory
from typing import Any

from support.scenarios.parts import FROM_FIRST, Inbox, fresh

from pocketmq.client import (
    Admin,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    by_hash,
)


async def pushes(namesrv: str) -> None:
    """Two members share the queues; every message comes, those of a queue in order."""
    topic, group = fresh("topic"), fresh("cg")
    settings: dict[str, Any] = {"consume_from_where": FROM_FIRST, "queue_concurrency": 1}
    inbox, second_inbox = Inbox(), Inbox()
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PushConsumer(group, namesrv, listener=inbox, **settings) as first,
    ):
        await admin.create_topic(topic, 4)
        first.subscribe(topic, "A || B")
        for i in range(300):
            tag = "ABC"[i % 3]
            message = Message(topic, b"%d" % i, tags=tag, sharding_key=f"key-{i % 7}")
            await producer.send(message, selector=by_hash)
        await inbox.has(lambda messages: len(messages) >= 200)
        assert {m.tags for m in inbox.messages} == {"A", "B"}
        assert len({m.msg_id for m in inbox.messages}) == 200
        by_queue: dict[MessageQueue, list[int]] = defaultdict(list)
        for m in inbox.messages:
            by_queue[m.queue].append(m.queue_offset)
        assert all(offsets == sorted(offsets) for offsets in by_queue.values())

        async with PushConsumer(group, namesrv, listener=second_inbox, **settings) as second:
            second.subscribe(topic, "A || B")
            while len(first.queues) != 2 or len(second.queues) != 2:
                await producer.send(Message(topic, b"more", tags="C"))
            assert not {*first.queues} & {*second.queues}
            for queue in second.queues:
                await producer.send(Message(topic, b"for the second", tags="A"), queue=queue)
            await second_inbox.has(
                lambda messages: sum(m.body == b"for the second" for m in messages) >= 2
            )
            members = await admin.consumer_connections(group, (await admin.brokers())[0].address)
            assert len(members.connection_set) == 2
        while len(first.queues) != 4:
            await producer.send(Message(topic, b"more", tags="C"))
    async with Admin(namesrv) as admin:
        await admin.delete_topic(topic)


async def pushed_again_after_a_failure(namesrv: str) -> None:
    """A listener that raises gets the message again; after a restart nothing is repeated."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[bytes] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        attempts.append(messages[0].body)
        if len(attempts) == 4:
            done.set()
        if attempts.count(b"poison") == 1 and messages[0].body == b"poison":
            return RetryLater(delay_level=1)
        return None

    settings: dict[str, Any] = {"concurrency": 1, "retry_delay_ms": 1}
    settings["consume_from_where"] = FROM_FIRST
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        (queue,) = await producer.queues(topic)
        for body in (b"before", b"poison", b"after"):
            await producer.send(Message(topic, body), queue=queue)
        async with PushConsumer(group, namesrv, listener=listener, **settings) as consumer:
            consumer.subscribe(topic)
            await done.wait()
        # Without a retry topic, on an older PocketMQ, "after" waits for "poison".
        assert sorted(attempts) == [b"after", b"before", b"poison", b"poison"]
        inbox = Inbox()
        async with PushConsumer(group, namesrv, listener=inbox, **settings) as consumer:
            consumer.subscribe(topic)
            await producer.send(Message(topic, b"new"), queue=queue)
            await inbox.has(lambda messages: len(messages) >= 1)
        assert [m.body for m in inbox.messages] == [b"new"]
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        await admin.delete_topic(topic)


async def broadcasts(namesrv: str) -> None:
    """Each member gets everything; after a restart it goes on where its own file says."""
    topic, group = fresh("topic"), fresh("cg")
    with TemporaryDirectory() as folder:
        async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
            await admin.create_topic(topic, 3)
            for bodies in ([b"1", b"2", b"3", b"4"], [b"5", b"6"]):
                inboxes = [Inbox(), Inbox()]
                async with AsyncExitStack() as stack:
                    for number, inbox in enumerate(inboxes):
                        consumer = PushConsumer(
                            group,
                            namesrv,
                            listener=inbox,
                            message_model="BROADCASTING",
                            local_offsets_path=f"{folder}/{number}.json",
                            consume_from_where=FROM_FIRST,
                        )
                        consumer.subscribe(topic)
                        await stack.enter_async_context(consumer)
                        assert len(consumer.queues) % 3 == 0
                    for body in bodies:
                        await producer.send(Message(topic, body))
                    for inbox in inboxes:
                        await inbox.holds(len(bodies))
                for inbox in inboxes:
                    assert sorted(m.body for m in inbox.messages) == bodies
            await admin.delete_topic(topic)


async def iterated(namesrv: str) -> None:
    """Without a listener; what was not acknowledged comes to the next consumer."""
    topic, group = fresh("topic"), fresh("cg")
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        for i in range(10):
            await producer.send(Message(topic, b"%d" % i))
        for expected in (range(6), range(5, 10)):
            found: list[int] = []
            async with PushConsumer(group, namesrv, consume_from_where=FROM_FIRST) as consumer:
                consumer.subscribe(topic)
                async for message in consumer:
                    found.append(int(message.body))
                    if len(found) == len(expected) and expected[-1] == 5:
                        break
                    consumer.ack(message)
                    if len(found) == len(expected):
                        break
            assert found == [*expected]
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        await admin.delete_topic(topic)
