"""Messages that come again, and dead letters, on any cluster that takes messages back."""

from __future__ import annotations

import asyncio
from typing import Any

from support.scenarios.parts import FROM_FIRST, first_message, fresh

from pocketmq.client import (
    Admin,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
)


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


async def a_message_that_cannot_go_back_is_sent_anew(namesrv: str) -> None:
    """The broker does not find it at its offset: an ordinary message takes its place."""
    topic, group = fresh("topic"), fresh("cg")
    attempts: list[ReceivedMessage] = []
    done = asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> RetryLater | None:
        attempts.extend(messages)
        if len(attempts) == 1:
            assert messages[0].offset_msg_id  # made of the offset when it is asked for
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
