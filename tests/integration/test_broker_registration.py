"""A broker and its name servers, real ones, under one virtual clock."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from support.brokers.broker_parts import LOCALHOST, TOPIC, Stage, advance_until, send_request
from support.peers.transport import until

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool

TIMEOUT_MS = 3_600_000


class Cluster:
    """Two name servers and a client that asks them for routes."""

    def __init__(self, stage: Stage, clock: VirtualClock) -> None:
        self.stage, self.clock = stage, clock
        self.pool = ConnectionPool(clock)
        self.servers: list[NameServer] = []

    async def start_server(self, port: int = 0) -> NameServer:
        config = NamesrvConfig(listen_port=port, bind_address=LOCALHOST)
        server = await NameServer(config, self.clock).__aenter__()
        self.servers.append(server)
        return server

    @property
    def addresses(self) -> str:
        return ";".join(server.address for server in self.servers)

    async def queues(self, server: NameServer, topic: str = TOPIC) -> int:
        """How many write queues a name server knows of a topic; 0 if it has no route."""
        answer = await self.pool.call(server.address, RouteRequest(topic=topic), TIMEOUT_MS)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return 0
        route = TopicRoute.decode(answer.body)
        return sum(queue.write_queue_nums for queue in route.queue_datas)

    async def until_known(self, server: NameServer, queues: int, topic: str = TOPIC) -> None:
        """Returns when a name server has heard of it, without any time passing."""
        while await self.queues(server, topic) != queues:
            pass

    async def close(self) -> None:
        await self.pool.close()
        for server in self.servers:
            await server.close()


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed) as stage:
        cluster = Cluster(stage, clock)
        for _ in range(2):
            await cluster.start_server()
        yield cluster
        await cluster.close()


async def test_a_started_broker_is_known_to_all_name_servers(cluster: Cluster) -> None:
    await cluster.stage.broker(namesrv_addr=cluster.addresses)
    for server in cluster.servers:
        assert await cluster.queues(server, "TBW102") == 8


async def test_new_and_changed_topics_are_known_without_any_time_passing(
    cluster: Cluster,
) -> None:
    client = await cluster.stage.start(namesrv_addr=cluster.addresses)
    await client.ask(send_request(), b"x")
    for server in cluster.servers:
        await cluster.until_known(server, 4)
    await client.create_topic(read=7, write=7)
    for server in cluster.servers:
        await cluster.until_known(server, 7)
    assert cluster.clock.monotonic() == 0


async def test_a_broker_stays_known_by_what_it_sends_every_30_s(cluster: Cluster) -> None:
    await cluster.stage.broker(namesrv_addr=cluster.addresses)
    for _ in range(40):  # ten minutes; without a sign of life it would be dropped after two
        await cluster.clock.advance(15)
        for server in cluster.servers:
            assert await cluster.queues(server, "TBW102") == 8


async def test_with_one_name_server_killed_the_other_goes_on(cluster: Cluster) -> None:
    client = await cluster.stage.start(namesrv_addr=cluster.addresses)
    killed, left = cluster.servers
    await killed.close()
    await client.create_topic(read=3, write=3)
    await cluster.until_known(left, 3)
    for _ in range(12):
        await cluster.clock.advance(15)
        assert await cluster.queues(left) == 3
    await client.send()


async def test_a_name_server_that_comes_back_learns_everything_again(cluster: Cluster) -> None:
    client = await cluster.stage.start(namesrv_addr=cluster.addresses)
    killed = cluster.servers.pop(0)
    port = split_address(killed.address)[1]
    await killed.close()
    await client.create_topic(read=3, write=3)
    again = await cluster.start_server(port)
    for _ in range(100):
        await cluster.clock.advance(1)
        if await cluster.queues(again) == 3:
            break
    assert await cluster.queues(again) == 3
    assert cluster.clock.monotonic() <= 30


async def test_a_broker_that_stops_is_forgotten_at_once(cluster: Cluster) -> None:
    broker = await cluster.stage.broker(namesrv_addr=cluster.addresses)
    await broker.close()
    for server in cluster.servers:
        assert await cluster.queues(server, "TBW102") == 0
    assert cluster.clock.monotonic() == 0


async def test_a_broker_starts_and_serves_without_any_name_server(cluster: Cluster) -> None:
    addresses = cluster.addresses
    ports = [split_address(server.address)[1] for server in cluster.servers]
    for server in cluster.servers:
        await server.close()
    cluster.servers.clear()
    client = await cluster.stage.start(namesrv_addr=addresses)
    await client.send()
    server = await cluster.start_server(ports[0])
    known = 0
    for _ in range(60):
        await cluster.clock.advance(1)
        known = await cluster.queues(server)
        if known:
            break
    assert known == 4
    assert cluster.clock.monotonic() <= 31


async def test_the_addresses_may_be_written_loosely(cluster: Cluster) -> None:
    first, second = (server.address for server in cluster.servers)
    await cluster.stage.broker(namesrv_addr=f" {first} ;, {second};")
    for server in cluster.servers:
        assert await cluster.queues(server, "TBW102") == 8


async def test_a_broker_whose_connection_is_lost_is_forgotten(cluster: Cluster) -> None:
    broker = await cluster.stage.broker(namesrv_addr=cluster.addresses)
    server = cluster.servers[0]
    connection = broker.registration._pool.peek(server.address)
    assert connection is not None
    connection.abort("the network failed")
    await until(lambda: broker.registration._pool.peek(server.address) is None)
    await cluster.until_known(server, 0, "TBW102")
    await advance_until(
        cluster.clock, lambda: broker.registration._pool.peek(server.address) is not None
    )
    await cluster.until_known(server, 8, "TBW102")
