"""What clients make of routes, and how they keep them up to date."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from support.peers.client import Cluster, done
from support.peers.transport import until

from pocketmq.client import (
    BrokerDownError,
    NoNameServerError,
    NoPermissionRouteError,
    UnknownTopicError,
)
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.routes import (
    UNUSED_POLLS_MAX,
    RouteCache,
    default_route,
    readable_queues,
    writable_queues,
)
from pocketmq.protocol.bodies.routes import BrokerData, QueueData, TopicRoute
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.message import MessageQueue

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
POLL_S = 30


async def started(cluster: Cluster, **settings: Any) -> ClientInstance:
    await cluster.add_namesrv()
    client = cluster.client(**settings)
    await client.start()
    return client


def route_of(perm: int = 6, *, broker_ids: tuple[int, ...] = (0,)) -> TopicRoute:
    return TopicRoute(
        queue_datas=[QueueData(broker_name="a", read_queue_nums=3, write_queue_nums=2, perm=perm)],
        broker_datas=[BrokerData(broker_name="a", broker_addrs=dict.fromkeys(broker_ids, "a:1"))],
    )


def test_producers_use_write_queues_and_consumers_read_queues() -> None:
    assert writable_queues("T", route_of()) == [MessageQueue("T", "a", i) for i in range(2)]
    assert readable_queues("T", route_of()) == [MessageQueue("T", "a", i) for i in range(3)]


@pytest.mark.parametrize(
    ("perm", "writable", "readable"), [(6, 2, 3), (4, 0, 3), (2, 2, 0), (7, 2, 3), (0, 0, 0)]
)
def test_permissions(perm: int, writable: int, readable: int) -> None:
    assert len(writable_queues("T", route_of(perm))) == writable
    assert len(readable_queues("T", route_of(perm))) == readable


def test_without_a_master_a_broker_can_only_be_read() -> None:
    route = route_of(broker_ids=(1, 2))
    assert writable_queues("T", route) == []
    assert len(readable_queues("T", route)) == 3


@pytest.mark.parametrize(("asked", "queues"), [(4, 3), (2, 2), (16, 3)])
def test_an_unknown_topic_takes_the_smaller_queue_count(asked: int, queues: int) -> None:
    route = default_route(route_of(7), asked)
    assert (route.queue_datas[0].read_queue_nums, route.queue_datas[0].write_queue_nums) == (
        queues,
        queues,
    )


async def test_an_unknown_topic_takes_the_route_of_tbw102(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("TBW102", "a", queues=8, perm=7)
    found = await done(client.routes.publish_route("New"))
    assert found.is_default
    assert found.ring.queues == tuple(MessageQueue("New", "a", i) for i in range(4))


async def test_a_retry_topic_that_no_name_server_knows_yet_has_one_queue(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("TBW102", "a", queues=8, perm=7)
    found = await done(client.routes.publish_route("%RETRY%billing"))
    assert found.ring.queues == (MessageQueue("%RETRY%billing", "a", 0),)


@pytest.mark.parametrize("use", ["publish_route", "subscribe"])
async def test_a_refresh_in_between_forgets_no_broker_that_is_about_to_be_used(
    cluster: Cluster, use: str
) -> None:
    broker = await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("New", "a")
    # As early as a refresh can end: the answer came, and who asked has not gone on yet.
    client.routes._on_brokers = client.routes._forget_lost_brokers
    await done(getattr(client.routes, use)("New"))
    assert client.routes.master_address("a") == broker.address


async def test_the_real_route_replaces_the_default_one(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("TBW102", "a", queues=8, perm=7)
    await done(client.routes.publish_route("New"))
    cluster.topic("New", "a", queues=1)
    await cluster.clock.advance(POLL_S)
    await until(lambda: not client.routes._publish["New"].is_default)
    found = await done(client.routes.publish_route("New"))
    assert found.ring.queues == (MessageQueue("New", "a", 0),)


async def test_unknown_and_auto_create_off(cluster: Cluster) -> None:
    client = await started(cluster)
    with pytest.raises(UnknownTopicError, match="automatic creation is off") as caught:
        await done(client.routes.publish_route("New"))
    assert "pocketmq topic create New" in str(caught.value)
    assert cluster.namesrvs[0].address in str(caught.value)


async def test_unknown_to_read(cluster: Cluster) -> None:
    client = await started(cluster)
    with pytest.raises(UnknownTopicError, match="does not exist"):
        await done(client.routes.queues_to_read("New"))
    assert await done(client.routes.subscribe("New")) == []


async def test_no_write_permission(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a", perm=4)
    with pytest.raises(NoPermissionRouteError, match="no writable queue"):
        await done(client.routes.publish_route("T"))


async def test_no_read_permission(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a", perm=2)
    with pytest.raises(NoPermissionRouteError, match="no readable queue"):
        await done(client.routes.queues_to_read("T"))


async def test_broker_down(cluster: Cluster) -> None:
    client = await started(cluster)
    cluster.topic("T", "gone")
    with pytest.raises(BrokerDownError, match="the master of gone"):
        await done(client.routes.publish_route("T"))


async def test_no_name_server(cluster: Cluster) -> None:
    client = await started(cluster)
    await done(cluster.namesrvs[0].server.close())
    with pytest.raises(NoNameServerError):
        await done(client.routes.publish_route("T"))


async def test_a_topic_that_comes_back_is_found_at_once(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a", perm=4)
    with pytest.raises(NoPermissionRouteError):
        await done(client.routes.publish_route("T"))
    cluster.topic("T", "a")
    assert (await done(client.routes.publish_route("T"))).ring.queues


async def test_callers_at_once_share_one_question(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    for _ in range(2):
        asks = [client.routes.publish_route("T") for _ in range(20)]
        for ask in asks:
            await done(ask)
    assert cluster.namesrvs[0].count(ROUTE) == 1


async def test_routes_in_use_are_polled_every_thirty_seconds(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    cluster.topic("S", "a")
    await done(client.routes.publish_route("T"))
    await done(client.routes.subscribe("S"))
    namesrv = cluster.namesrvs[0]
    assert namesrv.count(ROUTE) == 2
    await cluster.clock.advance(POLL_S - 1)
    assert namesrv.count(ROUTE) == 2
    cluster.topic("T", "a", queues=5)
    cluster.topic("S", "a", queues=6)
    await cluster.clock.advance(1)
    await until(lambda: namesrv.count(ROUTE) == 4)
    await until(lambda: len(client.routes._publish["T"].ring.queues) == 5)
    assert len(await done(client.routes.subscribe("S"))) == 6


async def test_an_unchanged_route_keeps_the_turns(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    first = await done(client.routes.publish_route("T"))
    await cluster.clock.advance(POLL_S)
    await until(lambda: cluster.namesrvs[0].count(ROUTE) == 2)
    assert await done(client.routes.publish_route("T")) is first


async def test_a_topic_that_the_name_server_lost_keeps_its_route(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    await done(client.routes.publish_route("T"))
    del cluster.routes["T"]
    await cluster.clock.advance(POLL_S)
    await until(lambda: cluster.namesrvs[0].count(ROUTE) == 2)
    assert (await done(client.routes.publish_route("T"))).ring.queues


async def test_routes_survive_name_servers_that_are_down(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    await done(client.routes.publish_route("T"))
    await done(cluster.namesrvs[0].server.close())
    await cluster.clock.advance(3 * POLL_S)
    assert (await done(client.routes.publish_route("T"))).ring.queues


async def test_unused_topics_are_forgotten(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("Old", "a")
    cluster.topic("Used", "a")
    await done(client.routes.publish_route("Old"))
    await done(client.routes.publish_route("Used"))
    namesrv = cluster.namesrvs[0]
    for round_number in range(UNUSED_POLLS_MAX + 1):
        await done(client.routes.publish_route("Used"))
        await cluster.clock.advance(POLL_S)
        await until(lambda n=round_number: namesrv.count(ROUTE) >= 4 + 2 * n - (n == 20))  # type: ignore[misc]
    assert set(client.routes._publish) == {"Used"}


async def test_addresses(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    route = cluster.topic("T", "a", "b")
    address = cluster.brokers["a"].address
    route.broker_datas[1].broker_addrs = {2: "127.0.0.1:2", 3: "127.0.0.1:3"}
    await done(client.routes.subscribe("T"))
    routes = client.routes
    assert routes.master_address("a") == address
    assert routes.master_address("b") is None
    assert routes.read_address("a") == (address, 0)
    assert routes.read_address("b") == ("127.0.0.1:2", 2)
    assert routes.read_address("b", 3) == ("127.0.0.1:3", 3)
    assert routes.read_address("b", 1) == ("127.0.0.1:2", 2)
    assert routes.read_address("x") is None
    assert routes.addresses(masters_only=True) == [address]
    assert len(routes.addresses(masters_only=False)) == 3
    assert routes.topic_addresses("T") == [address, "127.0.0.1:2"]
    with pytest.raises(BrokerDownError, match="the master of b"):
        await done(routes.master_of(MessageQueue("T", "b", 0)))
    with pytest.raises(BrokerDownError, match="the broker x"):
        await done(routes.locate(MessageQueue("T", "x", 0)))


@pytest.mark.parametrize("is_to_send", [False, True])
async def test_a_poll_between_answer_and_asker_forgets_no_broker(
    cluster: Cluster, is_to_send: bool
) -> None:
    await cluster.add_broker("a")
    client = await started(cluster)
    cluster.topic("T", "a")
    polls: list[asyncio.Task[None]] = []
    routes = RouteCache(
        client.namesrv,
        client.settings,
        Random(1),
        lambda: polls.append(asyncio.ensure_future(routes.refresh())),
    )
    await done(routes.publish_route("T") if is_to_send else routes.queues_to_read("T"))
    assert [poll.done() for poll in polls] == [True]
    assert routes.master_address("a") == cluster.brokers["a"].address


async def test_brokers_that_left_the_routes_are_forgotten(cluster: Cluster) -> None:
    await cluster.add_broker("a")
    await cluster.add_broker("b")
    client = await started(cluster)
    cluster.topic("T", "a", "b")
    await done(client.routes.publish_route("T"))
    cluster.topic("T", "b")
    await cluster.clock.advance(POLL_S)
    await until(lambda: client.routes.master_address("a") is None)
    assert client.routes.master_address("b") is not None
