"""Lite pull consumers whose brokers stop, die and come back; pauses pass in virtual time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio
from support.brokers.broker_parts import LOCALHOST

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    Admin,
    LitePullConsumer,
    Message,
    MessageQueue,
    MessageSelector,
    Producer,
    PushConsumer,
)
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.testing.clock import VirtualClock

TOPIC, GROUP = "Polled", "cg"
SETTINGS: dict[str, Any] = {"consume_from_where": "CONSUME_FROM_FIRST_OFFSET"}


class Cluster:
    """A name server, and brokers that can be stopped and started again at the same address."""

    def __init__(self, namesrv: str, folder: Path, stack: AsyncExitStack) -> None:
        self.namesrv = namesrv
        self._folder, self._stack = folder, stack
        self.brokers: dict[str, Broker] = {}

    async def start(self, name: str, **settings: Any) -> Broker:
        """A broker with its data as they are."""
        before = self.brokers.get(name)
        config = BrokerConfig(
            broker_name=name,
            listen_port=split_address(before.address)[1] if before is not None else 0,
            bind_address=LOCALHOST,
            namesrv_addr=self.namesrv,
            store_path_root_dir=str(self._folder / name),
            disk_space_free_min=0,
        )
        broker = Broker(msgspec.structs.replace(config, **settings))
        self.brokers[name] = await self._stack.enter_async_context(broker)
        return broker

    async def fill(self, name: str, count: int, first: int = 0) -> None:
        """Sends so many messages to the first queue of a broker."""
        async with Producer("pg", self.namesrv) as producer:
            for i in range(first, first + count):
                await producer.send(
                    Message(TOPIC, f"{name}{i}"), queue=MessageQueue(TOPIC, name, 0)
                )


@pytest_asyncio.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Two brokers, each with one queue of the topic."""
    async with AsyncExitStack() as stack:
        config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST)
        namesrv = await stack.enter_async_context(NameServer(config))
        made = Cluster(namesrv.address, tmp_path, stack)
        for name in ("a", "b"):
            await made.start(name)
        async with Admin(namesrv.address) as admin:
            await admin.create_topic(TOPIC, 1)
        yield made


async def polled(consumer: LitePullConsumer, clock: VirtualClock, count: int) -> list[str]:
    """Polls until so many messages have come; time passes where nothing does."""
    found: list[str] = []
    while len(found) < count:
        batch = await consumer.poll(0)
        found += [m.body.decode() for m in batch]
        if not batch:
            await clock.advance(0.1)
    return found


async def test_a_broker_that_stops_is_done_without_and_waited_for(
    cluster: Cluster, clock: VirtualClock
) -> None:
    async with LitePullConsumer(GROUP, cluster.namesrv, clock=clock, **SETTINGS) as consumer:
        consumer.subscribe(TOPIC)
        await cluster.fill("a", 3)
        await cluster.fill("b", 3)
        assert sorted(await polled(consumer, clock, 6)) == ["a0", "a1", "a2", "b0", "b1", "b2"]
        await cluster.brokers["b"].close()
        await cluster.fill("a", 3, first=3)
        assert await polled(consumer, clock, 3) == ["a3", "a4", "a5"]
        await consumer.commit()  # the other broker stores it later
        await cluster.start("b")
        await cluster.fill("b", 3, first=3)
        assert await polled(consumer, clock, 3) == ["b3", "b4", "b5"]
        await clock.advance(60)
        assert len(consumer.assignment) == 2
    async with Admin(cluster.namesrv) as admin:
        assert [row.lag for row in await admin.consume_stats(GROUP, TOPIC)] == [0, 0]


async def test_what_a_member_had_not_handled_comes_to_the_next(
    cluster: Cluster, clock: VirtualClock
) -> None:
    await cluster.fill("a", 25)

    async def fails(consumer: LitePullConsumer) -> None:
        async with consumer:
            assert await polled(consumer, clock, 20) == [f"a{i}" for i in range(20)]
            raise KeyError("the second batch could not be handled")

    first = LitePullConsumer(GROUP, cluster.namesrv, clock=clock, **SETTINGS)
    first.subscribe(TOPIC)
    with pytest.raises(KeyError):
        await fails(first)
    async with LitePullConsumer(GROUP, cluster.namesrv, clock=clock, **SETTINGS) as second:
        second.subscribe(TOPIC)
        assert await polled(second, clock, 15) == [f"a{i}" for i in range(10, 25)]


async def test_a_member_that_dies_is_replaced(cluster: Cluster, clock: VirtualClock) -> None:
    """Its broker notices the closed connection; only what was not stored comes again."""
    await cluster.fill("a", 5)
    await cluster.fill("b", 5)
    dying = LitePullConsumer(GROUP, cluster.namesrv, clock=clock, **SETTINGS)
    dying.subscribe(TOPIC)
    await dying.start()
    assert len(await polled(dying, clock, 10)) == 10
    await dying.commit()
    await dying.instance.pool.close()  # no goodbye
    async with LitePullConsumer(GROUP, cluster.namesrv, clock=clock, **SETTINGS) as heir:
        heir.subscribe(TOPIC)
        while len(heir.assignment) < 2:
            await clock.advance(1)
        await cluster.fill("a", 1, first=5)
        assert await polled(heir, clock, 1) == ["a5"]
    await dying.close()


async def test_a_reset_of_the_queue_moves_the_consumer(
    cluster: Cluster, clock: VirtualClock
) -> None:
    """The stored offset lies behind the queue's end: it goes on where the broker says."""
    await cluster.fill("a", 5)
    async with Admin(cluster.namesrv) as admin:
        queue = MessageQueue(TOPIC, "a", 0)
        await admin.create_group(GroupConfig(group_name=GROUP))
        await admin.commit_offset(GROUP, queue, 99)
        async with LitePullConsumer(GROUP, cluster.namesrv, clock=clock) as consumer:
            consumer.subscribe(TOPIC)
            await clock.advance(1)
            await cluster.fill("a", 1, first=5)
            assert await polled(consumer, clock, 1) == ["a5"]
        assert {r.queue: r.consumer_offset for r in await admin.consume_stats(GROUP, TOPIC)}[
            queue
        ] == 6


async def test_sql_that_a_broker_does_not_serve_ends_the_start(
    cluster: Cluster, clock: VirtualClock
) -> None:
    await cluster.brokers["b"].close()
    await cluster.start("b", enable_property_filter=False)
    for made in (
        LitePullConsumer(GROUP, cluster.namesrv, clock=clock),
        PushConsumer(GROUP, cluster.namesrv, clock=clock, listener=print),
    ):
        made.subscribe(TOPIC, MessageSelector.by_sql("a > 5"))
        with pytest.raises(ResponseError, match="SQL92"):
            await made.start()
