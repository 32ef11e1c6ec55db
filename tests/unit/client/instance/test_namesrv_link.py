"""Routes from name servers of which some are down: two real servers, one long connection."""

from __future__ import annotations

import asyncio

import pytest
from support.peers.client import Cluster, code, done, silent
from support.peers.transport import until

from pocketmq.client import NoNameServerError
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ResponseError, TopicMissingError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.transport.errors import ConnectError

ROUTE = RequestCode.GET_ROUTEINFO_BY_TOPIC
ASK = RouteRequest(topic="T")


async def two(cluster: Cluster) -> Cluster:
    await cluster.add_namesrv()
    await cluster.add_namesrv()
    await cluster.add_broker("a")
    cluster.topic("T", "a")
    return cluster


async def test_all_calls_go_to_one_name_server(cluster: Cluster) -> None:
    await two(cluster)
    client = cluster.client()
    await client.start()
    for _ in range(5):
        await done(client.namesrv.ask(ASK))
    assert sorted(n.count(ROUTE) for n in cluster.namesrvs) == [0, 5]
    assert sum(len(n.server.connections) for n in cluster.namesrvs) == 1


async def test_clients_spread_over_the_name_servers(cluster: Cluster) -> None:
    await two(cluster)
    chosen = set()
    for seed in range(20):
        client = cluster.client(seed)
        await client.start()
        await done(client.namesrv.ask(ASK))
        chosen.add(client.namesrv.current)
    assert chosen == {n.address for n in cluster.namesrvs}


async def test_the_same_seed_chooses_the_same(cluster: Cluster) -> None:
    await two(cluster)
    chosen = set()
    for _ in range(5):
        client = cluster.client(7)
        await client.start()
        await done(client.namesrv.ask(ASK))
        chosen.add(client.namesrv.current)
    assert len(chosen) == 1


async def test_failover_when_the_one_in_use_stops(cluster: Cluster) -> None:
    await two(cluster)
    client = cluster.client()
    await client.start()
    await done(client.namesrv.ask(ASK))
    used = next(n for n in cluster.namesrvs if n.address == client.namesrv.current)
    other = next(n for n in cluster.namesrvs if n is not used)
    await done(used.server.close())
    await until(lambda: client.namesrv.current is None)
    await done(client.namesrv.ask(ASK))
    assert client.namesrv.current == other.address


async def test_many_callers_fail_over_together(cluster: Cluster) -> None:
    """The lock and the second look behind it: one of them chooses, the others follow."""
    await two(cluster)
    client = cluster.client()
    await client.start()
    await done(asyncio.gather(*(client.namesrv.ask(ASK) for _ in range(50))))
    used = next(n for n in cluster.namesrvs if n.address == client.namesrv.current)
    assert used.count(ROUTE) == 50
    await done(used.server.close())
    await done(asyncio.gather(*(client.namesrv.ask(ASK) for _ in range(50))))
    other = next(n for n in cluster.namesrvs if n is not used)
    assert other.count(ROUTE) == 50
    assert len(other.server.connections) == 1


async def test_a_name_server_that_closes_in_the_middle_of_a_call(cluster: Cluster) -> None:
    await two(cluster)
    client = cluster.client()
    await client.start()
    await done(client.namesrv.ask(ASK))
    used = next(n for n in cluster.namesrvs if n.address == client.namesrv.current)
    used.answers[ROUTE] = silent
    asking = asyncio.ensure_future(client.namesrv.ask(ASK))
    await until(lambda: used.count(ROUTE) == 2)
    await done(used.server.close())
    await until(asking.done)
    assert asking.result().code == 0


async def test_a_name_server_that_does_not_answer(cluster: Cluster) -> None:
    await two(cluster)
    client = cluster.client()
    await client.start()
    await done(client.namesrv.ask(ASK))
    used = next(n for n in cluster.namesrvs if n.address == client.namesrv.current)
    used.answers[ROUTE] = silent
    asking = asyncio.ensure_future(client.namesrv.ask(ASK))
    await until(lambda: used.count(ROUTE) == 2)
    await cluster.clock.advance(3)
    await until(asking.done)
    assert client.namesrv.current != used.address
    await until(lambda: not used.server.connections)


async def test_it_reconnects_by_itself(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    client = cluster.client()
    await client.start()
    with pytest.raises(TopicMissingError):
        await done(client.namesrv.ask(ASK))
    for connection in list(cluster.namesrvs[0].server.connections):
        connection.abort("the test says so")
    await until(lambda: client.namesrv.current is None)
    with pytest.raises(TopicMissingError):
        await done(client.namesrv.ask(ASK))


async def test_none_can_be_reached(cluster: Cluster) -> None:
    await two(cluster)
    addresses = [n.address for n in cluster.namesrvs]
    client = cluster.client()
    await client.start()
    for n in cluster.namesrvs:
        await done(n.server.close())
    with pytest.raises(NoNameServerError) as caught:
        await done(client.namesrv.ask(ASK))
    assert set(caught.value.tried) == set(addresses)
    for address in addresses:
        assert f"{address}: cannot connect" in str(caught.value)
    assert "NAMESRV_ADDR" in str(caught.value)


async def test_a_refusal_is_an_answer(cluster: Cluster) -> None:
    await two(cluster)
    for n in cluster.namesrvs:
        n.answers[ROUTE] = code(1, "not ready")
    client = cluster.client()
    await client.start()
    with pytest.raises(ResponseError, match="not ready"):
        await done(client.namesrv.ask(ASK))
    assert sum(n.count(ROUTE) for n in cluster.namesrvs) == 1


async def test_changes_go_to_all(cluster: Cluster) -> None:
    await two(cluster)
    client = cluster.client()
    await client.start()
    await done(client.namesrv.ask_all(ASK))
    assert [n.count(ROUTE) for n in cluster.namesrvs] == [1, 1]
    await done(cluster.namesrvs[0].server.close())
    with pytest.raises(ConnectError, match="cannot connect"):
        await done(client.namesrv.ask_all(ASK))
    assert cluster.namesrvs[1].count(ROUTE) == 2
