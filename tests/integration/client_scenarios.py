"""What a client must manage on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import AsyncExitStack
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest

from pocketmq.client import (
    Admin,
    ClientInstance,
    LocalTransactionState,
    Message,
    MessageQueue,
    OrderlyResult,
    Producer,
    PullConsumer,
    PullStatus,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    SendResult,
    SendStatus,
    TransactionProducer,
    UnknownTopicError,
    blocking,
    by_hash,
)
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import (
    IllegalMessageError,
    NotFoundError,
    PocketMQError,
    ResponseError,
)
from pocketmq.protocol.ids import parse_offset_msg_id
from pocketmq.protocol.recall_handle import parse_recall_handle

HOLD_MS = 10_000
"""How long a pull may wait for a message that was just sent."""

FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


def fresh(kind: str) -> str:
    """A name that no earlier test used."""
    return f"{kind}-{uuid4().hex[:12]}"


async def holds(admin: Admin, topic: str, count: int) -> None:
    """Waits until a topic holds so many messages: Apache's brokers index what they have stored."""
    while sum(row.count for row in await admin.topic_stats(topic)) < count:
        pass
    assert sum(row.count for row in await admin.topic_stats(topic)) == count


class Inbox:
    """A listener that lets a test wait for what it expects."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._changed = asyncio.Event()

    async def __call__(self, messages: list[ReceivedMessage]) -> object:
        self.messages.extend(messages)
        self._changed.set()
        return None

    async def has(self, condition: Callable[[list[ReceivedMessage]], bool]) -> None:
        """Returns when the condition holds."""
        while not condition(self.messages):
            self._changed.clear()
            await self._changed.wait()

    async def holds(self, count: int) -> None:
        """Returns when so many messages have come."""
        await self.has(lambda messages: len(messages) >= count)


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


async def unknown_topics(namesrv: str) -> None:
    """Created on the first send, unknown to read."""
    topic = fresh("auto")
    async with Producer(fresh("pg"), namesrv) as producer, Admin(namesrv) as admin:
        with pytest.raises(UnknownTopicError):
            await admin.topic_route(topic)
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
        assert len(await producer.queues(topic)) % 4 == 0
        address = (await admin.brokers())[0].address
        await admin.delete_topic(topic)
        with pytest.raises((ResponseError, NotFoundError)):
            await admin.topic_config(topic, address)


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


async def topics_are_administered(namesrv: str) -> None:
    """Create, widen, narrow, forbid, list, delete; groups and KV configuration."""
    topic, group = fresh("topic"), fresh("cg")
    async with Admin(namesrv) as admin:
        addresses = await admin.create_topic(topic, 2)
        masters = [b for b in await admin.brokers() if b.broker_id == 0]
        assert sorted(addresses) == sorted(b.address for b in masters)
        await admin.update_topic(topic, read_queues=6, write_queues=3)
        for data in (await admin.topic_route(topic)).queue_datas:
            assert (data.read_queue_nums, data.write_queue_nums, data.perm) == (6, 3, 6)
        await admin.update_topic(topic, perm=4)
        config = await admin.topic_config(topic, addresses[0])
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (6, 3, 4)
        assert topic in await admin.topics()
        assert topic in await admin.topics(cluster=masters[0].cluster)
        assert (await admin.broker_runtime(addresses[0]))["brokerVersionDesc"]
        assert (await admin.broker_config(addresses[0]))["brokerName"] == masters[0].broker_name
        assert topic not in await admin.groups()
        async with PullConsumer(group, namesrv) as consumer:
            (first, *_) = await consumer.queues(topic)
            await consumer.pull(first, 0)
        assert group in await admin.groups()
        settings = await admin.group_config(group, addresses[0])
        settings.retry_max_times = 3
        await admin.create_group(settings, broker_addr=addresses[0])
        assert (await admin.group_config(group, addresses[0])).retry_max_times == 3
        # Without clean_offset Apache's broker (5.5.0, groups created on first use) keeps the group.
        await admin.delete_group(group, clean_offset=True, broker_addr=addresses[0])
        with pytest.raises(NotFoundError):
            await admin.group_config(group, addresses[0])
        space = fresh("space")
        await admin.kv_put(space, "key", "value")
        assert await admin.kv_get(space, "key") == "value"
        assert await admin.kv_list(space) == {"key": "value"}
        await admin.kv_delete(space, "key")
        assert await admin.kv_get(space, "key") is None
        assert await admin.kv_list(fresh("space")) == {}
        await admin.delete_topic(topic)
        assert topic not in await admin.topics()


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


async def a_failed_message_takes_the_ladders_first_step(namesrv: str) -> None:
    """It comes again through the retry topic, under its own topic, and its offset is passed."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[ReceivedMessage] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        attempts.extend(messages)
        if len(attempts) < 3:
            return RetryLater(delay_level=1)
        done.set()
        return None

    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        message = Message(topic, b"poison", tags="A", keys="k", properties={"colour": "blau ü"})
        sent = await producer.send(message)
        async with PushConsumer(
            group, namesrv, listener=listener, consume_from_where=FROM_FIRST
        ) as consumer:
            consumer.subscribe(topic, "A")
            await done.wait()
        assert [m.reconsume_times for m in attempts] == [0, 1, 2]
        for m in attempts:
            assert (m.topic, m.body, m.tags, m.keys) == (topic, b"poison", "A", ("k",))
            assert (m.msg_id, m.properties["colour"]) == (sent.msg_id, "blau ü")
        for m in attempts[1:]:
            assert m.properties["RETRY_TOPIC"] == topic
            assert m.properties["ORIGIN_MESSAGE_ID"] == sent.offset_msg_id
        assert sum(row.lag for row in await admin.consume_stats(group, topic)) == 0
        assert sum(row.lag for row in await admin.consume_stats(group, f"%RETRY%{group}")) == 0
        await admin.delete_topic(topic)


async def a_poison_message_ends_among_the_dead_letters(namesrv: str) -> None:
    """After as many repetitions as are allowed: none, one, or the listener says so."""
    topic = fresh("topic")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as puller,
    ):
        await admin.create_topic(topic, 1)
        await producer.send(Message(topic, b"poison", keys="k"))
        for times_max, level, expected in ((0, 0, [0]), (1, 1, [0, 1]), (-1, -1, [0])):
            group = fresh("cg")
            attempts = await attempts_until_dead(namesrv, topic, group, times_max, level)
            assert [m.reconsume_times for m in attempts] == expected
            dead = await first_message(puller, f"%DLQ%{group}")
            assert (dead.body, dead.keys, dead.msg_id) == (b"poison", ("k",), attempts[0].msg_id)
            assert dead.properties["RETRY_TOPIC"] == topic
        await admin.delete_topic(topic)


async def attempts_until_dead(
    namesrv: str, topic: str, group: str, times_max: int, level: int
) -> list[ReceivedMessage]:
    """What a listener sees that always fails, until the retry topic is done with."""
    attempts: list[ReceivedMessage] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater:
        attempts.extend(messages)
        if times_max < 0 or len(attempts) > times_max:
            done.set()
        return RetryLater(delay_level=level)

    settings: dict[str, Any] = {"max_reconsume_times": times_max}
    async with PushConsumer(
        group, namesrv, listener=listener, consume_from_where=FROM_FIRST, **settings
    ) as consumer:
        consumer.subscribe(topic)
        await done.wait()
    return attempts


async def first_message(puller: PullConsumer, topic: str) -> ReceivedMessage:
    """The first message of a topic of one queue that is just being created."""
    while True:
        try:
            (queue,) = await puller.queues(topic)
        except UnknownTopicError:
            continue
        result = await puller.pull(queue, 0, hold_ms=HOLD_MS)
        if result.messages:
            return result.messages[0]


async def a_message_that_cannot_go_back_is_sent_anew(namesrv: str) -> None:
    """The broker does not find it at its offset: an ordinary message takes its place."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[ReceivedMessage] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        attempts.extend(messages)
        if len(attempts) == 1:
            messages[0].physical_offset = 1 << 40
            return RetryLater(delay_level=1)
        done.set()
        return None

    async with Admin(namesrv) as admin, Producer(fresh("pg"), namesrv) as producer:
        await admin.create_topic(topic, 1)
        sent = await producer.send(Message(topic, b"lost", properties={"colour": "red"}))
        async with PushConsumer(
            group, namesrv, listener=listener, consume_from_where=FROM_FIRST
        ) as consumer:
            consumer.subscribe(topic)
            await done.wait()
        again = attempts[1]
        assert (again.topic, again.body, again.reconsume_times) == (topic, b"lost", 1)
        assert (again.msg_id, again.properties["colour"]) == (sent.msg_id, "red")
        assert again.properties["ORIGIN_MESSAGE_ID"] == sent.offset_msg_id
        await admin.delete_topic(topic)


def without_an_event_loop(namesrv: str) -> None:
    """The blocking client, used from a plain thread."""
    import threading

    topic = fresh("topic")
    bodies: list[bytes] = []
    complete, called = threading.Event(), threading.Event()
    outcomes: list[SendResult | PocketMQError] = []

    def listener(messages: list[ReceivedMessage]) -> None:
        bodies.extend(m.body for m in messages)
        if len(bodies) == 8:
            complete.set()

    def on_sent(outcome: SendResult | PocketMQError) -> None:
        outcomes.append(outcome)
        called.set()

    with (
        blocking.Admin(namesrv) as admin,
        blocking.Producer(fresh("pg"), namesrv) as producer,
        blocking.PullConsumer(fresh("cg"), namesrv) as puller,
        blocking.PushConsumer(
            fresh("cg"), namesrv, listener=listener, consume_from_where=FROM_FIRST
        ) as pusher,
    ):
        admin.create_topic(topic, 2)
        pusher.subscribe(topic)
        result = producer.send(Message(topic, b"one"))
        producer.send_async(Message(topic, b"two"), on_sent)
        assert called.wait(30)
        assert isinstance(outcomes[0], SendResult)
        producer.send_oneway(Message(topic, b"three"))
        producer.send_batch([Message(topic, b"four")] * 5)
        assert complete.wait(30)
        assert sorted(set(bodies)) == [b"four", b"one", b"three", b"two"]
        assert result.queue in producer.queues(topic)
        assert puller.queues(topic) == sorted(producer.queues(topic))
        queue = result.queue
        assert puller.pull(queue, result.queue_offset, hold_ms=HOLD_MS).messages[0].body == b"one"
        puller.commit(queue, puller.max_offset(queue))
        assert puller.committed_offset(queue) == puller.max_offset(queue)
        assert puller.min_offset(queue) == puller.search_offset(queue, 0) == 0
        assert puller.earliest_store_time_ms(queue) > 0
        assert sorted(pusher.queues) == puller.queues(topic)
        assert {row.queue for row in admin.topic_stats(topic)} == {*puller.queues(topic)}
        pusher.pause()
        assert pusher.is_paused
        pusher.resume()
        pusher.unsubscribe(topic)
        with blocking.PushConsumer(
            fresh("cg"), namesrv, consume_from_where=FROM_FIRST
        ) as iterated_over:
            iterated_over.subscribe(topic)
            first = next(iterated_over)
            iterated_over.ack(first)
            again = next(iterated_over)
            iterated_over.retry(again, delay_level=18)
            assert first.msg_id != again.msg_id
        assert list(iterated_over) == []
        with blocking.TransactionProducer(fresh("pg"), namesrv, listener=PlainLedger()) as sender:
            sent = sender.send_in_transaction(Message(topic, b"in one", tags="COMMIT"), "arg")
            assert sent.local_state is LocalTransactionState.COMMIT
            assert sender.send(Message(topic, b"on its own")).msg_id != sent.msg_id
        admin.delete_topic(topic)


class Ledger:
    """A transaction listener that does and says what each message's tag asks for."""

    def __init__(self) -> None:
        self.executed: list[str | None] = []
        self.checked: list[ReceivedMessage] = []

    async def execute_local_transaction(
        self, message: Message, arg: object
    ) -> LocalTransactionState:
        self.executed.append(message.unique_key)
        assert arg == message.body
        if message.tags == "raise":
            raise RuntimeError("the application's database is gone")
        return LocalTransactionState[message.tags or ""]

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.append(message)
        return LocalTransactionState[message.properties["later"]]


class PlainLedger:
    """A transaction listener of plain functions."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        assert arg == "arg"
        return LocalTransactionState.COMMIT

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.COMMIT


async def transactions(namesrv: str) -> None:
    """Committed, rolled back and unknown at first; what is open is asked about."""
    topic, group, inbox, ledger = fresh("topic"), fresh("pg"), Inbox(), Ledger()
    kinds = {
        b"committed": ("COMMIT", "COMMIT"),
        b"rolled back": ("ROLLBACK", "ROLLBACK"),
        b"committed later": ("UNKNOWN", "COMMIT"),
        b"rolled back later": ("UNKNOWN", "ROLLBACK"),
        b"committed after a failure": ("raise", "COMMIT"),
        b"large" * 10_000: ("COMMIT", "COMMIT"),
    }
    delivered = {body for body, (_, later) in kinds.items() if later == "COMMIT"}
    async with (
        Admin(namesrv) as admin,
        PushConsumer(
            fresh("cg"), namesrv, listener=inbox, consume_from_where=FROM_FIRST
        ) as consumer,
        TransactionProducer(group, namesrv, listener=ledger) as producer,
    ):
        await admin.create_topic(topic, 2)
        consumer.subscribe(topic)
        results = {}
        for body, (tags, later) in kinds.items():
            message = Message(topic, body, tags=tags, properties={"later": later})
            results[body] = await producer.send_in_transaction(message, body)
        assert results[b"committed"].local_state is LocalTransactionState.COMMIT
        assert results[b"committed after a failure"].local_state is LocalTransactionState.UNKNOWN
        await inbox.has(lambda messages: {m.body for m in messages} >= delivered)
        assert {m.body for m in inbox.messages} == delivered
        found = {m.body: m for m in inbox.messages}
        for body, message in found.items():
            result, kind = results[body], kinds[body]
            assert message.msg_id == result.msg_id == result.transaction_id
            assert message.properties["__transactionId__"] == message.msg_id
            assert message.properties["PGROUP"] == group
            assert message.sys_flag & 0xC == 0x8
            assert (message.queue_id, message.tags) == (result.queue.queue_id, kind[0])
            assert message.properties["TRAN_MSG"] == "true"
            assert not {"REAL_TOPIC", "REAL_QID"} & message.properties.keys()
            half = parse_offset_msg_id(result.offset_msg_id).physical_offset
            if kind[0] != "COMMIT":  # its end names the copy that the broker asked about
                assert message.prepared_transaction_offset != half
        # On a slow machine others are asked about as well, before their ends have come.
        asked = {b"committed later", b"rolled back later", b"committed after a failure"}
        while not asked <= {m.body for m in ledger.checked}:
            await asyncio.to_thread(lambda: None)
        assert {m.topic for m in ledger.checked} == {topic}
        assert {m.unique_key for m in ledger.checked} <= set(ledger.executed)


async def timers_and_recalls(namesrv: str) -> None:
    """Messages come when they asked to, never early, unless they were recalled before."""
    topic = fresh("timers")
    async with (
        Admin(namesrv) as admin,
        Producer(fresh("pg"), namesrv) as producer,
        PullConsumer(fresh("cg"), namesrv) as consumer,
    ):
        await admin.create_topic(topic, 1)
        (queue,) = await producer.queues(topic)
        past = await producer.send(Message(topic, b"past", deliver_at_ms=1))
        begun_ms = producer.instance.clock.now_ms()
        late = await producer.send(Message(topic, b"late", tags="A", delay_ms=2500))
        gone = await producer.send(Message(topic, b"gone", delay_ms=2000))
        level = await producer.send(
            Message(topic, b"level", delay_level=1, properties={"TIMER_DELAY_SEC": "90"})
        )
        assert past.recall_handle is None
        assert level.recall_handle is None
        assert gone.recall_handle is not None
        assert late.recall_handle is not None
        assert await producer.recall(topic, gone.recall_handle) == gone.msg_id
        for properties in ({"TIMER_DELAY_SEC": "soon"}, {"TIMER_DELAY_SEC": "259300"}):
            with pytest.raises(IllegalMessageError, match="timer message illegal"):
                await producer.send(Message(topic, b"never", properties=properties))
        # A recall names its time: one that is over is refused, whether or not there is a message.
        over = parse_recall_handle(late.recall_handle)._replace(timestamp_ms=begun_ms)
        with pytest.raises(ResponseError, match="timestamp invalid") as caught:
            await producer.recall(topic, over.encode())
        assert caught.value.code == ResponseCode.ILLEGAL_OPERATION

        found: list[ReceivedMessage] = []
        while len(found) < 3:
            found += (await consumer.pull(queue, len(found), hold_ms=HOLD_MS)).messages
        assert [m.body for m in found] == [b"past", b"level", b"late"]
        message = found[2]
        assert message.store_timestamp >= begun_ms + 2500
        assert message.msg_id == late.msg_id
        expected = {"TAGS": "A", "TIMER_DELAY_MS": "2500", "REAL_TOPIC": topic, "REAL_QID": "0"}
        assert message.properties.items() >= expected.items()
        slot_ms = parse_recall_handle(late.recall_handle).timestamp_ms - 1
        assert message.properties["TIMER_OUT_MS"] == str(slot_ms)
        assert message.properties.keys() >= {"TIMER_ENQUEUE_MS", "TIMER_DEQUEUE_MS"}
        assert "TIMER_DELAY_SEC" not in found[1].properties
        assert found[0].properties["TIMER_DELIVER_MS"] == "1"
        assert "TIMER_OUT_MS" not in found[0].properties
        await holds(admin, topic, 3)
        await admin.delete_topic(topic)


SCENARIOS = [
    sends_of_all_kinds,
    large_batches_are_split,
    unknown_topics,
    pulls_and_offsets,
    topics_are_administered,
    pushes,
    pushed_again_after_a_failure,
    broadcasts,
    iterated,
    transactions,
    consumes_in_order,
    timers_and_recalls,
]

RETRY_SCENARIOS = [
    a_failed_message_takes_the_ladders_first_step,
    a_poison_message_ends_among_the_dead_letters,
    a_message_that_cannot_go_back_is_sent_anew,
    gives_up_in_order,
]
"""They need a broker that takes messages back."""
