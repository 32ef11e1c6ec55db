"""What consumers that pull or poll, and filters by SQL92, must manage on any cluster."""

from __future__ import annotations

from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.scenarios.parts import FROM_FIRST, HOLD_MS, Inbox, fresh, holds

from pocketmq.client import (
    Admin,
    LitePullConsumer,
    Message,
    MessageQueue,
    MessageSelector,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    SeekError,
    UnknownTopicError,
    blocking,
)
from pocketmq.protocol.errors import UsageError

SETTINGS: dict[str, Any] = {"consume_from_where": FROM_FIRST}


async def polled(consumer: LitePullConsumer, count: int) -> list[ReceivedMessage]:
    """Polls until so many messages have come."""
    found: list[ReceivedMessage] = []
    while len(found) < count:
        found += await consumer.poll()
    return found


async def filters_by_sql(namesrv: str) -> None:
    """The broker evaluates the expression, for each kind of consumer."""
    topic = fresh("topic")
    cheap = MessageSelector.by_sql("price < 10 AND region IN ('eu', 'us') AND TAGS IS NOT NULL")
    inbox = Inbox()
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as puller,
        PushConsumer(fresh("cg"), namesrv, listener=inbox, **SETTINGS) as pusher,
        LitePullConsumer(fresh("cg"), namesrv, **SETTINGS) as poller,
    ):
        await admin.create_topic(topic, 1)
        pusher.subscribe(topic, cheap)
        poller.subscribe(topic, cheap)
        await pusher.check_subscriptions()
        await poller.check_subscriptions()
        (queue,) = await puller.queues(topic)
        for i in range(40):
            properties = {"price": str(i), "region": ("eu", "asia")[i % 2]}
            message = Message(topic, b"%d" % i, tags="t", properties=properties)
            await producer.send(message, queue=queue)
        await holds(admin, topic, 40)
        expected = [b"%d" % i for i in range(0, 10, 2)]
        result = await puller.pull(queue, 0, expression=cheap)
        assert [m.body for m in result.messages] == expected
        nothing = await puller.pull(queue, 10, expression=cheap)
        assert (nothing.status, nothing.next_offset) == (PullStatus.NO_MATCHED_MESSAGE, 40)
        assert [m.body for m in await polled(poller, 5)] == expected
        await inbox.holds(5)
        assert [m.body for m in inbox.messages] == expected
        poller.subscribe(topic, MessageSelector.by_sql("price = 99"))
        await producer.send(Message(topic, b"no", properties={"price": "5", "region": "eu"}))
        await producer.send(Message(topic, b"yes", properties={"price": "99"}))
        assert [m.body for m in await polled(poller, 1)] == [b"yes"]
        await admin.delete_topic(topic)


async def polls_seeks_and_commits(namesrv: str) -> None:
    """In order, from where the group or the application says."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
    ):
        await admin.create_topic(topic, 1)
        (queue,) = await producer.queues(topic)
        for i in range(30):
            await producer.send(Message(topic, b"%d" % i), queue=queue)
        await holds(admin, topic, 30)
        async with LitePullConsumer(group, namesrv, **SETTINGS) as consumer:
            consumer.subscribe(topic)
            found = await polled(consumer, 10)
            assert [m.body for m in found] == [b"%d" % i for i in range(10)]
            with pytest.raises(SeekError):
                await consumer.seek(queue, 31)
            await consumer.seek(queue, 25)
            assert [m.body for m in await polled(consumer, 5)] == [b"%d" % i for i in range(25, 30)]
            assert await consumer.offset_for_timestamp(queue, 1_000) == 0
            await consumer.seek_to_time(queue, 1_000)
            assert (await polled(consumer, 1))[0].body == b"0"
            await consumer.seek_to_end(queue)
            assert await consumer.poll(0) == []
            await consumer.seek_to_begin(queue)
            consumer.pause([queue])
            assert await consumer.poll(100) == []
            consumer.resume([queue])
            assert len(await polled(consumer, 20)) == 20
            with pytest.raises(UsageError):
                consumer.assign([queue])
        (row,) = await admin.consume_stats(group, topic)
        assert row.consumer_offset == 20  # the block's end says that it was handled
        async with LitePullConsumer(group, namesrv, auto_commit=False, **SETTINGS) as consumer:
            consumer.subscribe(topic)
            assert (await polled(consumer, 10))[0].body == b"20"
            await consumer.commit({queue: 27})
            assert await consumer.committed(queue) == 27
        async with LitePullConsumer(group, namesrv, auto_commit=False, **SETTINGS) as consumer:
            consumer.subscribe(topic)
            assert [m.body for m in await polled(consumer, 3)] == [b"27", b"28", b"29"]
            await consumer.commit()
        (row,) = await admin.consume_stats(group, topic)
        assert row.lag == 0
        await admin.delete_topic(topic)


async def assigned_queues(namesrv: str) -> None:
    """Only those that were named, by tag, iterated over."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        LitePullConsumer(group, namesrv, **SETTINGS) as consumer,
    ):
        await admin.create_topic(topic, 3)
        queues = await consumer.queues(topic)
        for queue in queues:
            for tag in "AB":
                body = b"%d%s" % (queue.queue_id, tag.encode())
                await producer.send(Message(topic, body, tags=tag), queue=queue)
        await holds(admin, topic, 2 * len(queues))
        consumer.assign(queues[:2], "B")
        found = [(await anext(consumer)).body for _ in range(2)]
        assert sorted(found) == [b"0B", b"1B"]
        assert consumer.assignment == queues[:2]
        consumer.assign(queues[2:3])
        found = [(await anext(consumer)).body for _ in range(2)]
        assert found == [b"2A", b"2B"]
        await consumer.commit()
        assert await consumer.committed(queues[2]) == 2
        await admin.delete_topic(topic)


async def members_share_the_queues(namesrv: str) -> None:
    """Two that poll, then one that polls and one that pushes."""
    topic, group = fresh("topic"), fresh("cg")
    shares: list[int] = []

    async def on_share(_: str, total: list[MessageQueue], own: list[MessageQueue]) -> None:
        shares.append(len(own))

    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        LitePullConsumer(group, namesrv, **SETTINGS) as first,
    ):
        await admin.create_topic(topic, 4)
        first.subscribe(topic, listener=on_share)
        async with LitePullConsumer(group, namesrv, **SETTINGS) as second:
            second.subscribe(topic)
            while len(first.assignment) != 2 or len(second.assignment) != 2:
                await first.poll(20)
            assert not {*first.assignment} & {*second.assignment}
            for queue in await first.queues(topic):
                await producer.send(Message(topic, b"%d" % queue.queue_id), queue=queue)
            for member in (first, second):
                got = [m.queue for m in await polled(member, 2)]
                assert sorted(got) == member.assignment
        while len(first.assignment) != 4:
            await first.poll(20)
        assert 2 in shares
        inbox = Inbox()
        async with PushConsumer(group, namesrv, listener=inbox, **SETTINGS) as third:
            third.subscribe(topic)
            while len(first.assignment) != 2 or len(third.queues) != 2:
                await first.poll(20)
            for queue in third.queues:
                await producer.send(Message(topic, b"pushed"), queue=queue)
            for queue in first.assignment:
                await producer.send(Message(topic, b"polled"), queue=queue)
            await inbox.has(lambda messages: sum(m.body == b"pushed" for m in messages) == 2)
            assert {m.body for m in await polled(first, 2)} == {b"polled"}
        while len(first.assignment) != 4:
            await first.poll(20)
        await admin.delete_topic(topic)


async def broadcast_polls(namesrv: str) -> None:
    """Each member gets everything, and goes on where its own file says."""
    topic, group = fresh("topic"), fresh("cg")
    with TemporaryDirectory() as folder:
        async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
            await admin.create_topic(topic, 2)
            for bodies in ([b"1", b"2", b"3"], [b"4"]):
                for body in bodies:
                    await producer.send(Message(topic, body))
                for number in range(2):
                    async with LitePullConsumer(
                        group,
                        namesrv,
                        message_model="BROADCASTING",
                        local_offsets_path=f"{folder}/{number}.json",
                        **SETTINGS,
                    ) as consumer:
                        consumer.subscribe(topic)
                        found = await polled(consumer, len(bodies))
                        assert sorted(m.body for m in found) == bodies
            await admin.delete_topic(topic)


async def sends_back_what_was_pulled(namesrv: str) -> None:
    """A pulled message comes again through the group's retry topic, then ends among the dead."""
    topic, group = fresh("topic"), fresh("cg")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(group, namesrv, max_reconsume_times=1) as consumer,
    ):
        await admin.create_topic(topic, 1)
        sent = await producer.send(Message(topic, b"later", tags="A"))
        await consumer.queues(topic)
        assert await consumer.queues_in_balance(topic) == [sent.queue]
        (message,) = (await consumer.pull_block_if_not_found(sent.queue, 0)).messages
        await consumer.send_back(message, 1)
        (again,) = await first_of(consumer, f"%RETRY%{group}")
        assert (again.body, again.tags, again.reconsume_times) == (b"later", "A", 1)
        assert again.properties["RETRY_TOPIC"] == topic
        await consumer.send_back(again)
        (dead,) = await first_of(consumer, f"%DLQ%{group}")
        assert (dead.body, dead.msg_id) == (b"later", sent.msg_id)
        await admin.delete_topic(topic)


async def first_of(consumer: PullConsumer, topic: str) -> list[ReceivedMessage]:
    """The first messages of a topic of one queue that is just being created."""
    while True:
        try:
            (queue,) = await consumer.queues(topic)
        except UnknownTopicError:
            continue
        found = list((await consumer.pull(queue, 0, hold_ms=HOLD_MS)).messages)
        if found:
            return found


def polls_without_an_event_loop(namesrv: str) -> None:
    """The blocking client, used from a plain thread."""
    topic, group = fresh("topic"), fresh("cg")
    heard: list[int] = []

    def on_share(_: str, total: list[MessageQueue], own: list[MessageQueue]) -> None:
        heard.append(len(own))

    with (
        blocking.Admin(namesrv) as admin,
        blocking.Producer(fresh("pg"), namesrv) as producer,
        blocking.PullConsumer(fresh("cg"), namesrv) as puller,
        blocking.LitePullConsumer(group, namesrv, **SETTINGS) as poller,
    ):
        admin.create_topic(topic, 1)
        (queue,) = puller.queues(topic)
        poller.subscribe(topic, "*", on_share)
        poller.check_subscriptions()
        poller.listen_to_topic(topic, lambda topic, queues: None)
        for i in range(3):
            producer.send(Message(topic, b"%d" % i), queue=queue)
        assert next(poller).body == b"0"
        assert poller.assignment == [queue]
        found: list[bytes] = []
        while len(found) < 2:
            found += [m.body for m in poller.poll()]
        assert found == [b"1", b"2"]
        assert heard == [1]
        assert poller.queues(topic) == [queue]
        poller.commit()
        assert poller.committed(queue) == 3
        poller.seek(queue, 1)
        assert next(poller).body == b"1"
        poller.seek_to_begin(queue)
        assert next(poller).body == b"0"
        poller.seek_to_time(queue, 0)
        assert next(poller).body == b"0"
        assert poller.offset_for_timestamp(queue, 0) == 0
        poller.seek_to_end(queue)
        poller.pause([queue])
        poller.resume([queue])
        assert poller.poll(0) == []
        result = puller.pull_block_if_not_found(queue, 0)
        assert result.messages
        assert puller.queues_in_balance(topic) == [queue]
        puller.listen_to_queues(topic, None)
        puller.send_back(result.messages[0], 18)
        poller.unsubscribe(topic)
        with blocking.LitePullConsumer(fresh("cg"), namesrv, **SETTINGS) as assigned:
            assigned.assign([queue])
            assert next(assigned).body == b"0"
        assert list(assigned) == []
        admin.delete_topic(topic)


POLLING_SCENARIOS = [
    filters_by_sql,
    polls_seeks_and_commits,
    assigned_queues,
    members_share_the_queues,
    broadcast_polls,
    sends_back_what_was_pulled,
]
