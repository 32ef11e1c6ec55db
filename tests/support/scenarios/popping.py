"""Consumers that pop, on any cluster that knows POP: PocketMQ's own and Apache's since 5.0."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from support.scenarios.parts import FROM_FIRST, first_message, fresh

from pocketmq.client import (
    Admin,
    Message,
    MessageSelector,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SimpleConsumer,
    blocking,
)
from pocketmq.client.popping.popper import handle_of


async def received(
    consumer: SimpleConsumer, count: int, invisible_ms: int = 30_000
) -> list[ReceivedMessage]:
    """So many messages, of as many receives as that takes."""
    messages: list[ReceivedMessage] = []
    while len(messages) < count:
        messages += await consumer.receive(32, invisible_ms)
    assert len(messages) == count
    return messages


async def what_is_acknowledged_does_not_come_again(namesrv: str) -> None:
    """One by one and together; the others come again when they are visible, and count that."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        SimpleConsumer(group, namesrv, consume_from_where=FROM_FIRST) as consumer,
    ):
        await admin.create_topic(topic, 2)
        consumer.subscribe(topic)
        for number in range(8):
            message = Message(topic, b"%d" % number, tags="A", keys="k", properties={"p": "v"})
            await producer.send(message)
        messages = await received(consumer, 8)
        assert sorted(m.body for m in messages) == [b"%d" % n for n in range(8)]
        for message in messages:
            assert (message.topic, message.tags, message.keys) == (topic, "A", ("k",))
            assert (message.properties["p"], message.reconsume_times) == ("v", 0)
        first, second, *rest = sorted(messages, key=lambda m: m.body)
        await consumer.ack(first)
        await consumer.ack(*rest)
        assert await consumer.receive(await_ms=0) == []
        await consumer.change_invisible_duration(second, 0)
        (again,) = await received(consumer, 1)
        assert (again.body, again.topic, again.reconsume_times) == (b"1", topic, 1)
        assert again.properties["p"] == "v"
        await consumer.ack(again)
        await consumer.ack(again)  # once more is no error
        assert await consumer.receive(await_ms=0) == []
        await admin.delete_topic(topic)


async def a_changed_time_makes_a_new_handle(namesrv: str) -> None:
    """By which the message is acknowledged."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        SimpleConsumer(group, namesrv, consume_from_where=FROM_FIRST) as consumer,
    ):
        await admin.create_topic(topic, 1)
        consumer.subscribe(topic)
        await producer.send(Message(topic, b"one"))
        (message,) = await received(consumer, 1, 1_000)
        before = handle_of(message)
        await consumer.change_invisible_duration(message, 60_000)
        after = handle_of(message)
        assert (before.invisible_time, after.invisible_time) == (1_000, 60_000)
        assert after.pop_time >= before.pop_time
        assert after.start_offset == after.queue_offset == before.queue_offset
        await asyncio.gather(*(consumer.receive(await_ms=1_500) for _ in range(2)))
        await consumer.ack(message)
        await admin.delete_topic(topic)


async def messages_of_several_topics_by_tag_and_expression(namesrv: str) -> None:
    """A receive that finds nothing waits at all brokers and topics."""
    by_tag, by_sql = fresh("topic"), fresh("topic")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        SimpleConsumer(fresh("cg"), namesrv, consume_from_where=FROM_FIRST) as consumer,
    ):
        await admin.create_topic(by_tag, 1)
        await admin.create_topic(by_sql, 1)
        consumer.subscribe(by_tag, "A || B")
        consumer.subscribe(by_sql, MessageSelector.by_sql("n > 1"))
        assert await consumer.receive(await_ms=0) == []
        for tag in "ABC":
            receiving = asyncio.ensure_future(consumer.receive())
            await producer.send(Message(by_tag, tag.encode(), tags=tag))
            if tag == "C":
                await producer.send(Message(by_sql, b"1", properties={"n": "1"}))
                await producer.send(Message(by_sql, b"2", properties={"n": "2"}))
            messages = await receiving or await received(consumer, 1)
            assert [m.body for m in messages] == [{"C": b"2"}.get(tag, tag.encode())]
            await consumer.ack(*messages)
        await admin.delete_topic(by_tag)
        await admin.delete_topic(by_sql)


async def each_batch_of_an_ordered_queue_waits_for_the_one_before(namesrv: str) -> None:
    """Until all of it is acknowledged."""
    topic = fresh("topic")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        SimpleConsumer(
            fresh("cg"), namesrv, consume_from_where=FROM_FIRST, orderly=True
        ) as consumer,
    ):
        await admin.create_topic(topic, 1)
        consumer.subscribe(topic)
        for number in range(4):
            await producer.send(Message(topic, b"%d" % number))
        first = await consumer.receive(2)
        assert [m.body for m in first] == [b"0", b"1"]
        assert await consumer.receive(await_ms=0) == []
        await consumer.ack(*first)
        second = await consumer.receive(2)
        assert [m.body for m in second] == [b"2", b"3"]
        await consumer.ack(*second)
        await admin.delete_topic(topic)


async def members_that_pop_share_a_queue(namesrv: str) -> None:
    """More of them than there are queues; each message is handled once."""
    topic, group = fresh("topic"), fresh("cg")
    seen: list[bytes] = []
    by_member: dict[int, int] = {}
    done = asyncio.Event()

    def member(number: int) -> Callable[[Sequence[ReceivedMessage]], Awaitable[None]]:
        async def listener(messages: Sequence[ReceivedMessage]) -> None:
            seen.extend(m.body for m in messages)
            by_member[number] = by_member.get(number, 0) + len(messages)
            if len(by_member) < 2:
                await joined.wait()
            if len(by_member) == 2:
                joined.set()
            if len(seen) == 40:
                done.set()

        return listener

    joined = asyncio.Event()
    settings: dict[str, Any] = {
        "mode": "pop",
        "consume_from_where": FROM_FIRST,
        "pop_threshold_for_queue": 4,
    }
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        async with (
            PushConsumer(group, namesrv, listener=member(0), **settings) as first,
            PushConsumer(group, namesrv, listener=member(1), **settings) as second,
        ):
            first.subscribe(topic)
            second.subscribe(topic)
            for number in range(40):
                await producer.send(Message(topic, b"%d" % number))
            await done.wait()
        assert sorted(seen) == sorted(b"%d" % number for number in range(40))
        await admin.delete_topic(topic)


async def what_a_popping_listener_fails_at_comes_again_and_ends_among_the_dead(
    namesrv: str,
) -> None:
    """After the delay that it says; the properties stay."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[int] = []

    async def listener(messages: Sequence[ReceivedMessage]) -> RetryLater:
        (message,) = messages
        assert (message.topic, message.properties["p"]) == (topic, "v")
        attempts.append(message.reconsume_times)
        return RetryLater(delay_level=1)

    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as puller,
        PushConsumer(
            group,
            namesrv,
            listener=listener,
            mode="pop",
            consume_from_where=FROM_FIRST,
            max_reconsume_times=1,
        ) as consumer,
    ):
        await admin.create_topic(topic, 1)
        consumer.subscribe(topic)
        await producer.send(Message(topic, b"poison", properties={"p": "v"}))
        dead = await first_message(puller, f"%DLQ%{group}")
        assert (dead.body, attempts) == (b"poison", [0, 1])
        await admin.delete_topic(topic)


async def popping_in_a_namespace(namesrv: str) -> None:
    """Names are the application's, also those of the topics that messages come again through."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv, namespace="shop") as producer,
        SimpleConsumer(group, namesrv, namespace="shop", consume_from_where=FROM_FIRST) as consumer,
    ):
        await admin.create_topic(f"shop%{topic}", 1)
        consumer.subscribe(topic)
        await producer.send(Message(topic, b"one"))
        await producer.send(Message(topic, b"two"))
        messages = await received(consumer, 2)
        for message in messages:
            await consumer.change_invisible_duration(message, 0)
        again = await received(consumer, 2)
        assert {(m.topic, m.reconsume_times) for m in again} == {(topic, 1)}
        await consumer.ack(*again)
        assert await consumer.receive(await_ms=0) == []
        await admin.delete_topic(f"shop%{topic}")


def receives_without_an_event_loop(namesrv: str) -> None:
    """The blocking simple consumer, used from a plain thread."""
    topic = fresh("topic")
    with (
        blocking.Admin(namesrv) as admin,
        blocking.Producer(fresh("pg"), namesrv) as producer,
        blocking.SimpleConsumer(fresh("cg"), namesrv, consume_from_where=FROM_FIRST) as consumer,
    ):
        admin.create_topic(topic, 1)
        consumer.subscribe(topic)
        producer.send(Message(topic, b"one"))
        (message,) = consumer.receive(1, 30_000)
        consumer.change_invisible_duration(message, 60_000)
        consumer.ack(message)
        assert consumer.receive(await_ms=0) == []
        consumer.unsubscribe(topic)
        admin.delete_topic(topic)


POPPING_SCENARIOS = [
    popping_in_a_namespace,
    what_is_acknowledged_does_not_come_again,
    a_changed_time_makes_a_new_handle,
    messages_of_several_topics_by_tag_and_expression,
    each_batch_of_an_ordered_queue_waits_for_the_one_before,
    members_that_pop_share_a_queue,
    what_a_popping_listener_fails_at_comes_again_and_ends_among_the_dead,
]
