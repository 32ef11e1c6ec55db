"""Requests, traces, hooks and namespaces on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.scenarios.parts import FROM_FIRST, Inbox, fresh, holds

from pocketmq.client import (
    Admin,
    BatchContentError,
    ConsumeHooks,
    ConsumeMessageContext,
    ConsumeReturnType,
    LocalTransactionState,
    Message,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    RequestTimeoutError,
    RetryLater,
    SendForbiddenError,
    SendHooks,
    SendMessageContext,
    TransactionProducer,
    by_hash,
    reply_message,
)
from pocketmq.protocol.messages.trace import (
    PubTrace,
    SubAfterTrace,
    SubBeforeTrace,
    TraceRecord,
    decode_trace,
)

TIMEOUT_MS = 30_000


async def requests_and_replies(namesrv: str) -> None:
    """Many requests at once, each gets its own reply; one that nobody answers ends in time."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("repliers"), namesrv) as replier,
        Producer(fresh("askers"), namesrv) as asker,
    ):
        await admin.create_topic(topic, 2)

        async def answer(messages: list[ReceivedMessage]) -> None:
            for message in messages:
                if message.tags != "silent":
                    await replier.send(reply_message(message, b"re: " + message.body))

        async with PushConsumer(
            group, namesrv, listener=answer, consume_from_where=FROM_FIRST
        ) as consumer:
            consumer.subscribe(topic)
            bodies = [b"%d" % i for i in range(20)] + [b"x" * 10_000]
            replies = await asyncio.gather(
                *(asker.request(Message(topic, body), TIMEOUT_MS) for body in bodies)
            )
            assert [r.body for r in replies] == [b"re: " + body for body in bodies]
            assert all(r.topic.endswith("_REPLY_TOPIC") for r in replies)
            with pytest.raises(RequestTimeoutError):
                await asker.request(Message(topic, b"x", tags="silent"), 300)
        await admin.delete_topic(topic)


async def hooks_look_on(namesrv: str) -> None:
    """They see each send and each batch, add properties, refuse sends and drop messages."""
    topic, group = fresh("topic"), fresh("cg")
    sent: list[SendMessageContext] = []
    consumed: list[ConsumeMessageContext] = []

    def sign(context: SendMessageContext) -> None:
        context.messages[0].properties["signed"] = "yes"

    def forbid(context: Any) -> None:
        if context.messages[0].tags == "forbidden":
            raise PermissionError("not today")

    send_hooks = SendHooks(forbidden=[forbid], before=[sign], after=[sent.append])
    consume_hooks = ConsumeHooks(
        filters=[lambda message: message.body != b"spam"], after=[consumed.append]
    )
    inbox = Inbox()
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv, hooks=send_hooks) as producer,
    ):
        await admin.create_topic(topic, 1)
        with pytest.raises(SendForbiddenError, match="not today"):
            await producer.send(Message(topic, b"x", tags="forbidden"))
        results = [await producer.send(Message(topic, b)) for b in (b"one", b"spam", b"two")]
        assert [context.result for context in sent] == results
        async with PushConsumer(
            group, namesrv, listener=inbox, hooks=consume_hooks, consume_from_where=FROM_FIRST
        ) as consumer:
            consumer.subscribe(topic)
            await inbox.holds(2)
        assert sorted(m.body for m in inbox.messages) == [b"one", b"two"]
        assert {m.properties["signed"] for m in inbox.messages} == {"yes"}
        assert [c.return_type for c in consumed] == [ConsumeReturnType.SUCCESS] * 2
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        await admin.delete_topic(topic)


async def traces_are_written(namesrv: str) -> None:
    """Of a send, of a batch, and of what a listener made of the messages."""
    topic, group, trace_topic = fresh("topic"), fresh("cg"), fresh("trace")
    settings: dict[str, Any] = {"enable_trace": True, "trace_topic": trace_topic}
    attempts: list[ReceivedMessage] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        attempts.extend(messages)
        if len(attempts) == 4:
            done.set()
        return RetryLater(1) if len(attempts) == 1 else None

    async with Admin(namesrv) as admin:
        await admin.create_topic(topic, 1)
        await admin.create_topic(trace_topic, 1)
        pg = fresh("pg")
        async with Producer(pg, namesrv, **settings) as producer:
            first = await producer.send(Message(topic, b"12345", tags="A", keys=["k1", "k2"]))
            (batch,) = await producer.send_batch([Message(topic, b"b"), Message(topic, b"c")])
        async with PushConsumer(
            group, namesrv, listener=listener, consume_from_where=FROM_FIRST, **settings
        ) as consumer:
            consumer.subscribe(topic)
            await done.wait()
        records = await trace_records(namesrv, trace_topic, 3 + 4 + 4)
        sends = {r.msg_id: r for r in records if isinstance(r, PubTrace)}
        assert sends.keys() == {first.msg_id, *batch.msg_id.split(",")}
        told = sends[first.msg_id]
        assert (told.group, told.topic, told.tags, told.keys) == (pg, topic, "A", "k1 k2")
        assert (told.offset_msg_id, told.body_length) == (first.offset_msg_id, 5)
        assert (told.region, told.is_success) == ("DefaultRegion", True)
        before = [r for r in records if isinstance(r, SubBeforeTrace)]
        after = [r for r in records if isinstance(r, SubAfterTrace)]
        assert sorted(r.msg_id for r in before) == sorted(m.msg_id for m in attempts)
        assert {r.request_id for r in before} == {r.request_id for r in after}
        assert {r.group for r in before} == {r.group for r in after} == {group}
        assert sorted(r.return_type for r in after) == [
            *[ConsumeReturnType.SUCCESS] * 3, ConsumeReturnType.FAILED
        ]  # fmt: skip
        assert sorted(r.retry_times for r in before) == [0, 0, 0, 1]
        await admin.delete_topic(topic)
        await admin.delete_topic(trace_topic)


async def trace_records(namesrv: str, topic: str, count: int) -> list[TraceRecord]:
    """The records of a trace topic of one queue, once there are so many."""
    records: list[TraceRecord] = []
    offset = 0
    async with PullConsumer(fresh("cg"), namesrv) as consumer:
        (queue,) = await consumer.queues(topic)
        while len(records) < count:
            result = await consumer.pull(queue, offset, hold_ms=10_000)
            offset = result.next_offset
            records += [r for m in result.messages for r in decode_trace(m.body.decode())]
    assert len(records) == count
    return records


async def namespaces_keep_apart(namesrv: str) -> None:
    """The same names in two namespaces and outside: each gets its own messages, retries too."""
    topic, group = fresh("topic"), fresh("cg")
    spaces = ["", fresh("shop"), fresh("mall")]
    failed: set[str] = set()

    def failing_once(space: str, inbox: Inbox) -> Any:
        async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
            if space not in failed:
                failed.add(space)
                return RetryLater(1)
            await inbox(messages)
            return None

        return listener

    async with Admin(namesrv) as admin:
        for space in spaces:
            name = f"{space}%{topic}" if space else topic
            await admin.create_topic(name, 2)
            async with Producer("pg", namesrv, namespace=space) as producer:
                result = await producer.send(Message(topic, space or b"none"))
                assert result.queue.topic == topic
                assert result.queue in await producer.queues(topic)
            await holds(admin, name, 1)
        for space in spaces:
            inbox = Inbox()
            async with PushConsumer(
                group,
                namesrv,
                namespace=space,
                listener=failing_once(space, inbox),
                consume_from_where=FROM_FIRST,
            ) as consumer:
                consumer.subscribe(topic)
                await inbox.holds(1)
                assert {q.topic for q in consumer.queues} == {topic}
            (message,) = inbox.messages
            assert (message.topic, message.body.decode()) == (topic, space or "none")
            assert message.reconsume_times == 1
            wire_group = f"{space}%{group}" if space else group
            assert wire_group in await admin.groups()
            async with PullConsumer(group, namesrv, namespace=space) as puller:
                for queue in await puller.queues(topic):
                    committed = await puller.committed_offset(queue)
                    assert committed in (None, await puller.max_offset(queue))
                    result_there = await puller.pull(queue, 0)
                    assert result_there.status in (PullStatus.FOUND, PullStatus.NO_NEW_MESSAGE)
                    assert all(m.topic == topic for m in result_there.messages)
        for space in spaces:
            await admin.delete_topic(f"{space}%{topic}" if space else topic)


async def namespaces_hold_for_order_and_transactions(namesrv: str) -> None:
    """Locks, checks and ends of transactions name the right topics and groups."""

    class Decided:
        def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
            return LocalTransactionState.COMMIT if arg else LocalTransactionState.ROLLBACK

        def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
            raise AssertionError("the end was told")

    topic, space, inbox = fresh("topic"), fresh("shop"), Inbox()
    async with (
        Admin(namesrv) as admin,
        TransactionProducer("pg", namesrv, listener=Decided(), namespace=space) as producer,
    ):
        await admin.create_topic(f"{space}%{topic}", 1)
        for number in range(6):
            message = Message(topic, b"%d" % number)
            await producer.send_in_transaction(message, arg=number % 2)
        async with PushConsumer(
            fresh("cg"),
            namesrv,
            namespace=space,
            listener=inbox,
            orderly=True,
            consume_from_where=FROM_FIRST,
        ) as consumer:
            consumer.subscribe(topic)
            await inbox.holds(3)
        # Ends are told one-way, and Apache's broker has several threads for them.
        assert sorted(m.body for m in inbox.messages) == [b"1", b"3", b"5"]
        offsets = [m.queue_offset for m in inbox.messages]
        assert offsets == sorted(offsets)
        assert {m.topic for m in inbox.messages} == {topic}
        await admin.delete_topic(f"{space}%{topic}")


async def a_batch_goes_to_one_queue(namesrv: str) -> None:
    """A selector may choose it, if it chooses the same for all messages."""
    topic = fresh("topic")
    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 8)
        alike = [Message(topic, b"x", sharding_key="one") for _ in range(3)]
        (result,) = await producer.send_batch(alike, selector=by_hash)
        assert result.queue == (await producer.send(alike[0], selector=by_hash)).queue
        mixed = [Message(topic, b"x", sharding_key=f"key-{i}") for i in range(50)]
        with pytest.raises(BatchContentError, match="goes to one queue"):
            await producer.send_batch(mixed, selector=by_hash)
        await holds(admin, topic, 4)
        await admin.delete_topic(topic)


EXTRA_SCENARIOS = [
    requests_and_replies,
    hooks_look_on,
    traces_are_written,
    namespaces_keep_apart,
    namespaces_hold_for_order_and_transactions,
    a_batch_goes_to_one_queue,
]
