"""The client on PocketMQ's own cluster: a name server and two brokers in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
from support.interop.clusters import Cluster
from support.scenarios.blocking import without_an_event_loop
from support.scenarios.client import RETRY_SCENARIOS, SCENARIOS
from support.scenarios.extra import EXTRA_SCENARIOS
from support.scenarios.group import GROUP_SCENARIOS
from support.scenarios.parts import Inbox, fresh
from support.scenarios.polling import POLLING_SCENARIOS, polls_without_an_event_loop
from support.scenarios.popping import POPPING_SCENARIOS, receives_without_an_event_loop
from support.scenarios.query import QUERY_SCENARIOS

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    Admin,
    ClientInstance,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.testing.clock import VirtualClock

LOCALHOST = "127.0.0.1"


@asynccontextmanager
async def cluster_in(folder: Path, *names: str) -> AsyncIterator[str]:
    """Runs a name server and brokers; gives the name server's address."""
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(
            NameServer(NamesrvConfig(listen_port=0, bind_address=LOCALHOST))
        )
        for name in names:
            config = BrokerConfig(
                broker_name=name,
                listen_port=0,
                bind_address=LOCALHOST,
                namesrv_addr=namesrv.address,
                store_path_root_dir=str(folder / name),
                auto_create_topic_enable=True,
                transaction_check_interval=200,
                transaction_time_out=100,
            )
            await stack.enter_async_context(Broker(config))
        yield namesrv.address


@pytest_asyncio.fixture
async def namesrv(tmp_path: Path, apaches_broker: Cluster | None) -> AsyncIterator[str]:
    """The name server of a cluster of one broker."""
    if apaches_broker is not None:
        yield apaches_broker.namesrv
        return
    async with cluster_in(tmp_path, "broker-a") as address:
        yield address


@pytest.mark.parametrize(
    "scenario",
    SCENARIOS
    + RETRY_SCENARIOS
    + POLLING_SCENARIOS
    + GROUP_SCENARIOS
    + EXTRA_SCENARIOS
    + QUERY_SCENARIOS
    + POPPING_SCENARIOS,
    ids=lambda s: s.__name__,
)
async def test_on_one_broker(namesrv: str, scenario: Callable[[str], Awaitable[None]]) -> None:
    await scenario(namesrv)


async def test_without_an_event_loop(namesrv: str) -> None:
    await asyncio.to_thread(without_an_event_loop, namesrv)
    await asyncio.to_thread(polls_without_an_event_loop, namesrv)
    await asyncio.to_thread(receives_without_an_event_loop, namesrv)


async def test_peers_of_this_project_find_each_other(tmp_path: Path) -> None:
    async with (
        cluster_in(tmp_path, "broker-a") as namesrv,
        ClientInstance(namesrv) as instance,
        Producer("pg", instance=instance) as producer,
    ):
        result = await producer.send(Message("T", b"x"))
        address = instance.routes.master_address(result.queue.broker_name)
        assert address is not None
        assert (await instance.pool.get(address)).peer_is_pocketmq


async def test_two_brokers_share_a_topic_and_one_of_them_stops(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(cluster_in(tmp_path, "broker-a"))
        config = BrokerConfig(
            broker_name="broker-b",
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=namesrv,
            store_path_root_dir=str(tmp_path / "broker-b"),
        )
        second = await stack.enter_async_context(Broker(config))
        admin = await stack.enter_async_context(Admin(namesrv))
        producer = await stack.enter_async_context(Producer("pg", namesrv))
        await admin.create_topic("T", 2)
        names = {(await producer.send(Message("T", b"x"))).queue.broker_name for _ in range(8)}
        assert names == {"broker-a", "broker-b"}
        await second.close()
        names = {(await producer.send(Message("T", b"x"))).queue.broker_name for _ in range(8)}
        assert names == {"broker-a"}


async def test_consumers_go_on_when_their_broker_was_restarted(
    tmp_path: Path, clock: VirtualClock
) -> None:
    """The clients' pauses pass in virtual time; offsets survive in the broker."""
    inbox = Inbox()
    async with AsyncExitStack() as stack:
        namesrv = await stack.enter_async_context(cluster_in(tmp_path))
        config = BrokerConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            namesrv_addr=namesrv,
            store_path_root_dir=str(tmp_path / "broker"),
        )
        broker = await stack.enter_async_context(Broker(config))
        producer = await stack.enter_async_context(Producer("pg", namesrv))
        async with Admin(namesrv) as admin:
            await admin.create_topic("T", 1)
        consumer = PushConsumer("cg", namesrv, listener=inbox, clock=clock)
        consumer.subscribe("T")
        await stack.enter_async_context(consumer)
        await producer.send(Message("T", b"before"))
        await inbox.has(lambda messages: len(messages) == 1)
        port = int(broker.address.rpartition(":")[2])
        await broker.close()
        await clock.advance(5)
        broker = Broker(msgspec.structs.replace(config, listen_port=port))
        await stack.enter_async_context(broker)
        await producer.send(Message("T", b"after"))
        while len(inbox.messages) < 2:
            await clock.advance(1)
        assert [m.body for m in inbox.messages] == [b"before", b"after"]
        assert len(consumer.queues) == 1


async def test_a_close_that_is_cancelled_or_doubled_loses_nothing(namesrv: str) -> None:
    topic, group = fresh("topic"), fresh("cg")
    before = asyncio.all_tasks()
    begun, gate = asyncio.Event(), asyncio.Event()

    async def listener(messages: list[ReceivedMessage]) -> None:
        begun.set()
        await gate.wait()

    async with Admin(namesrv) as admin, Producer("pg", namesrv) as producer:
        await admin.create_topic(topic, 1)
        queue = (await producer.send(Message(topic, b"x"))).queue
        consumer = PushConsumer(
            group, namesrv, listener=listener, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
        )
        consumer.subscribe(topic)
        starting = asyncio.ensure_future(consumer.start())
        await begun.wait()
        closes = [asyncio.ensure_future(consumer.close()) for _ in range(3)]
        await starting
        closes[0].cancel()
        await asyncio.wait(closes[:1])
        closes.append(asyncio.ensure_future(consumer.close()))
        gate.set()
        await asyncio.gather(*closes[1:])
        async with PullConsumer(group, namesrv) as looker:
            assert await looker.committed_offset(queue) == 1
    left = asyncio.all_tasks() - before
    assert not [task for task in left if "pull" in task.get_name() or "listen" in task.get_name()]
