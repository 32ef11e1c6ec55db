"""Finding messages on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from support.scenarios.parts import FROM_FIRST, Inbox, fresh, holds

from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    UnknownTopicError,
    blocking,
)
from pocketmq.protocol.errors import ResponseError, UsageError
from pocketmq.protocol.messages.trace import PubTrace, SubAfterTrace, SubBeforeTrace, TraceRecord
from pocketmq.protocol.requests.queries import QueryMessageRequest


async def until_there_are(
    count: int, query: Callable[[], Awaitable[list[ReceivedMessage]]]
) -> list[ReceivedMessage]:
    """What a query finds, once it is so much: Apache's brokers index what they have stored."""
    while len(found := await query()) < count:
        pass
    assert len(found) == count
    return found


async def messages_are_found_by_key(namesrv: str) -> None:
    """By each of the keys, by the client's id, by tag; in time ranges; the newest ones."""
    topic, other = fresh("topic"), fresh("topic")
    async with (
        ClientInstance(namesrv) as instance,
        Admin(instance=instance) as admin,
        Producer(fresh("pg"), instance=instance) as producer,
    ):
        await admin.create_topic(topic, 3)
        await admin.create_topic(other, 1)
        sent = [
            await producer.send(
                Message(topic, b"%d" % i, tags="AB"[i % 2], keys=["all", f"one-{i}", f"h{i % 2}"])
            )
            for i in range(10)
        ]
        await producer.send(Message(other, b"other", keys=["all"]))
        everything = await until_there_are(10, lambda: admin.query_messages(topic, "all"))
        assert sorted(m.body for m in everything) == sorted(b"%d" % i for i in range(10))
        (one,) = await admin.query_messages(topic, "one-7")
        assert (one.body, one.msg_id, one.queue) == (b"7", sent[7].msg_id, sent[7].queue)
        assert one.offset_msg_id == sent[7].offset_msg_id
        assert len(await admin.query_messages(topic, "h1")) == 5
        assert {m.body for m in await admin.query_messages(topic, "A", index="tag")} == {
            b"0", b"2", b"4", b"6", b"8"
        }  # fmt: skip
        found = await admin.message_by_unique_key(topic, sent[3].msg_id)
        assert found is not None
        assert found.body == b"3"
        assert await admin.message_by_unique_key(topic, "none") is None
        assert len(await admin.query_messages(topic, "all", count_max=4)) == 4

        last_ms = everything[-1].store_timestamp
        within = await admin.query_messages(
            topic, "all", begin_ms=last_ms - 3_600_000, end_ms=last_ms + 3_600_000
        )
        assert len(within) == 10
        assert await admin.query_messages(topic, "all", begin_ms=last_ms + 3_600_000) == []
        assert await admin.query_messages(topic, "all", end_ms=last_ms - 3_600_000) == []
        for nothing in ("A", "one", "all one-1", "ALL", "none"):
            assert await admin.query_messages(topic, nothing) == []
        with pytest.raises(UnknownTopicError):
            await admin.query_messages(fresh("unknown"), "all")
        with pytest.raises(UsageError):
            await admin.query_messages(topic, "")
        for name in (topic, other):
            await admin.delete_topic(name)


async def many_messages_have_many_keys(namesrv: str) -> None:
    """Thousands, in batches: each is found, and of a key of all only the newest are."""
    topic = fresh("topic")
    count = 6000
    async with (
        ClientInstance(namesrv) as instance,
        Admin(instance=instance) as admin,
        Producer(fresh("pg"), instance=instance) as producer,
        PullConsumer(fresh("cg"), instance=instance) as consumer,
    ):
        await admin.create_topic(topic, 1)
        (queue,) = await consumer.queues(topic)
        for start in range(0, count, 500):
            await producer.send_batch(
                [
                    Message(topic, b"%d" % i, keys=["all", f"k{i}"])
                    for i in range(start, start + 500)
                ],
                queue=queue,
            )
        await holds(admin, topic, count)
        await until_there_are(1, lambda: admin.query_messages(topic, f"k{count - 1}"))
        for i in range(0, count, 371):
            assert [m.body for m in await admin.query_messages(topic, f"k{i}")] == [b"%d" % i]
        assert [m.queue_offset for m in await admin.query_messages(topic, "all", count_max=5)] == (
            list(range(count - 5, count))
        )
        await admin.delete_topic(topic)


async def nonsense_is_answered(namesrv: str) -> None:
    """Queries out of range: the code and the remark of RocketMQ."""
    topic = fresh("topic")
    async with ClientInstance(namesrv) as instance, Admin(instance=instance) as admin:
        await admin.create_topic(topic, 1)
        (address, *_) = [row.address for row in await admin.brokers()]
        for count, begin_ms, end_ms in ((0, 0, 1), (32, 5, 1), (32, -5, 2**63 - 1)):
            request = QueryMessageRequest(
                topic=topic,
                key="none",
                max_num=count,
                begin_timestamp=begin_ms,
                end_timestamp=end_ms,
            )
            with pytest.raises(ResponseError) as caught:
                await instance.pool.ask(address, request, 10_000)
            assert caught.value.code == 22
            assert "can not find message, maybe time range not correct" in str(caught.value)
        await admin.delete_topic(topic)


async def traces_are_found(namesrv: str) -> None:
    """Of a message by its id: who sent it, who consumed it, in which order."""
    topic, group, trace_topic = fresh("topic"), fresh("cg"), fresh("trace")
    inbox = Inbox()
    async with Admin(namesrv) as admin:
        for name in (topic, trace_topic):
            await admin.create_topic(name, 1)
        async with Producer(
            fresh("pg"), namesrv, enable_trace=True, trace_topic=trace_topic
        ) as producer:
            sent = [await producer.send(Message(topic, b"%d" % i, keys=["k"])) for i in range(3)]
        async with PushConsumer(
            group,
            namesrv,
            listener=inbox,
            consume_from_where=FROM_FIRST,
            enable_trace=True,
            trace_topic=trace_topic,
        ) as consumer:
            consumer.subscribe(topic)
            await inbox.holds(3)
        told: list[TraceRecord] = []
        while len(told) < 3:
            told = await admin.message_trace(sent[1].msg_id, trace_topic=trace_topic)
        assert {record.msg_id for record in told} == {sent[1].msg_id}
        kinds = {type(record): record for record in told}
        assert kinds.keys() == {PubTrace, SubBeforeTrace, SubAfterTrace}
        assert await admin.message_trace("none", trace_topic=trace_topic) == []
        for name in (topic, trace_topic):
            await admin.delete_topic(name)


def finds_without_an_event_loop(namesrv: str) -> None:
    """The blocking admin client offers the same."""
    topic = fresh("topic")
    with blocking.Admin(namesrv) as admin, blocking.Producer(fresh("pg"), namesrv) as producer:
        admin.create_topic(topic, 1)
        result = producer.send(Message(topic, b"x", keys=["k"]))
        while not admin.query_messages(topic, "k"):
            pass
        found = admin.message_by_unique_key(topic, result.msg_id)
        assert found is not None
        assert found.body == b"x"
        admin.delete_topic(topic)


async def blocking_finds(namesrv: str) -> None:
    """`finds_without_an_event_loop`, in a thread."""
    await asyncio.to_thread(finds_without_an_event_loop, namesrv)


QUERY_SCENARIOS = [
    messages_are_found_by_key,
    many_messages_have_many_keys,
    nonsense_is_answered,
    traces_are_found,
    blocking_finds,
]
