"""What `pocketmq tail` reads, on a real broker; pauses pass in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.cli.output import note
from pocketmq.client import Admin, Message, Producer, PullConsumer, UnknownTopicError
from pocketmq.client.copying.start_point import BEGINNING, END, StartPoint
from pocketmq.client.copying.topic_feed import TopicFeed
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import TopicMissingError
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.testing.clock import VirtualClock

LOCALHOST = "127.0.0.1"
TOPIC = "Feed"


@pytest_asyncio.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    namesrv = NamesrvConfig(listen_port=0, bind_address=LOCALHOST)
    async with NameServer(namesrv) as server:
        config = BrokerConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=server.address,
            store_path_root_dir=str(tmp_path),
        )
        async with Broker(config) as running:
            async with Admin(server.address) as admin:
                await admin.create_topic(TOPIC, 1)
            yield running


async def send(broker: Broker, *bodies: str) -> None:
    async with Producer("pg", broker.config.namesrv_addr) as producer:
        for body in bodies:
            await producer.send(Message(TOPIC, body))


async def body(feed: TopicFeed) -> bytes:
    message = await feed.next()
    assert message is not None
    return message.body


async def test_a_broker_that_goes_away_is_waited_for(
    broker: Broker, clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    await send(broker, "before")
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=True, on_note=note) as feed,
    ):
        await feed.start(TOPIC, BEGINNING)
        assert await body(feed) == b"before"
        await feed.mark_done()
        port = split_address(broker.address)[1]
        await broker.close()
        while not clock.pending_timers:  # the pause before the next question
            await clock.advance(0)
        assert "waiting for broker-a" in capsys.readouterr().err
        async with Broker(msgspec.structs.replace(broker.config, listen_port=port)) as again:
            await send(again, "after")
            await clock.advance(1)
            assert await body(feed) == b"after"
            assert capsys.readouterr().err == "broker-a answers again\n"


async def test_any_other_error_ends_the_feed(broker: Broker, clock: VirtualClock) -> None:
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=False) as feed,
        Admin(broker.config.namesrv_addr) as admin,
    ):
        await feed.start(TOPIC, BEGINNING)
        await admin.delete_topic(TOPIC)
        with pytest.raises((TopicMissingError, UnknownTopicError), match=TOPIC):
            await feed.next(0)


async def test_what_was_not_shown_is_not_committed(broker: Broker, clock: VirtualClock) -> None:
    await send(broker, "1", "2", "3", "4")
    async with PullConsumer("cg", broker.config.namesrv_addr) as consumer:
        async with TopicFeed(consumer, clock, expression="*", commits=True) as feed:
            await feed.start(TOPIC, BEGINNING)
            for expected in (b"1", b"2"):
                assert await body(feed) == expected
                await feed.mark_done()
            assert await body(feed) == b"3"  # taken, but never marked
        (queue,) = await consumer.queues(TOPIC)
        assert await consumer.committed_offset(queue) == 2


async def bodies(feed: TopicFeed) -> list[bytes]:
    found = []
    while (message := await feed.next()) is not None:
        found.append(message.body)
    return found


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (BEGINNING, [b"1", b"2", b"3"]),
        (END, []),
        (StartPoint(offset=1), [b"2", b"3"]),
        (StartPoint(offset=99), []),
        (StartPoint(last=2), [b"2", b"3"]),
        (StartPoint(last=99), [b"1", b"2", b"3"]),
        (StartPoint(timestamp_ms=1), [b"1", b"2", b"3"]),
    ],
)
async def test_it_begins_where_it_is_told_and_ends_at_the_end(
    broker: Broker, clock: VirtualClock, start: StartPoint, expected: list[bytes]
) -> None:
    await send(broker, "1", "2", "3")
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=False) as feed,
    ):
        await feed.start(TOPIC, start, to_end=True)
        await send(broker, "too late")
        assert await bodies(feed) == expected


async def test_messages_of_several_queues_come_by_age(broker: Broker, clock: VirtualClock) -> None:
    namesrv = broker.config.namesrv_addr
    async with Admin(namesrv) as admin, Producer("pg", namesrv) as producer:
        await admin.create_topic("Aged", 3)
        queues = await producer.queues("Aged")
        for number in range(600):  # in runs, more than a pull takes, on one queue after the other
            queue = queues[number // 200]
            await producer.send(Message("Aged", b"%d" % number), queue=queue)
    async with (
        PullConsumer("cg", namesrv) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=False) as feed,
    ):
        await feed.start("Aged", BEGINNING, to_end=True)
        ages = []
        while (message := await feed.next()) is not None:
            ages.append((message.store_timestamp, int(message.body)))
        assert len(ages) == 600
        assert [age for age, _ in ages] == sorted(age for age, _ in ages)


async def test_a_feed_is_stopped_while_it_waits(broker: Broker, clock: VirtualClock) -> None:
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=False) as feed,
    ):
        await feed.start(TOPIC, END)
        waiting = asyncio.ensure_future(feed.next())
        await clock.advance(0)
        feed.stop()
        assert await waiting is None
