"""What `pocketmq consume` reads, on a real broker; pauses pass in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.cli.feed import TopicFeed
from pocketmq.client import Admin, Message, Producer, PullConsumer, UnknownTopicError
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import TopicMissingError
from pocketmq.protocol.hosts import split_address
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


async def test_a_broker_that_goes_away_is_waited_for(
    broker: Broker, clock: VirtualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    await send(broker, "before")
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=True) as feed,
    ):
        await feed.start(TOPIC, from_beginning=True)
        assert (await feed.next(0)).body == b"before"
        await feed.mark_done()
        port = split_address(broker.address)[1]
        await broker.close()
        while not clock.pending_timers:  # the pause before the next question
            await clock.advance(0)
        assert "waiting for broker-a" in capsys.readouterr().err
        async with Broker(msgspec.structs.replace(broker.config, listen_port=port)) as again:
            await send(again, "after")
            await clock.advance(1)
            assert (await feed.next(0)).body == b"after"
            assert capsys.readouterr().err == "broker-a answers again\n"


async def test_any_other_error_ends_the_feed(broker: Broker, clock: VirtualClock) -> None:
    async with (
        PullConsumer("cg", broker.config.namesrv_addr) as consumer,
        TopicFeed(consumer, clock, expression="*", commits=False) as feed,
        Admin(broker.config.namesrv_addr) as admin,
    ):
        await feed.start(TOPIC, from_beginning=True)
        await admin.delete_topic(TOPIC)
        with pytest.raises((TopicMissingError, UnknownTopicError), match=TOPIC):
            await feed.next(0)


async def test_what_was_not_shown_is_not_committed(broker: Broker, clock: VirtualClock) -> None:
    await send(broker, "1", "2", "3", "4")
    async with PullConsumer("cg", broker.config.namesrv_addr) as consumer:
        async with TopicFeed(consumer, clock, expression="*", commits=True) as feed:
            await feed.start(TOPIC, from_beginning=True)
            for body in (b"1", b"2"):
                assert (await feed.next(0)).body == body
                await feed.mark_done()
            assert (await feed.next(0)).body == b"3"  # taken, but never marked
        (queue,) = await consumer.queues(TOPIC)
        assert await consumer.committed_offset(queue) == 2
