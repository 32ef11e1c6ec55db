"""Tails, rates and figures: with the rights of the caller, and of nobody else."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest_asyncio
from support.brokers.broker_parts import Stage
from support.brokers.console_parts import API, Asking, basic
from support.brokers.secured import ADMIN, BARE, Cluster, allow

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock

AS_ADMIN = basic(ADMIN.access_key, ADMIN.secret_key)
AS_BARE = basic(BARE.access_key, BARE.secret_key)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start()
        for topic in ("Orders", "Secret"):
            cluster.broker.topics.put(TopicConfig(topic_name=topic, read_queue_nums=1))
        yield cluster
        await cluster.close()


@pytest_asyncio.fixture
async def server(cluster: Cluster) -> AsyncIterator[ConsoleServer]:
    async with ConsoleServer(cluster.server.address, ConsoleOptions(port=0)) as server:
        yield server


@pytest_asyncio.fixture
async def api(server: ConsoleServer) -> Asking:
    return Asking(server)


def first_event(address: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
    """The first event of a tail, or the problem."""
    connection = http.client.HTTPConnection(address)
    try:
        connection.request("GET", API + path, headers=headers)
        answer = connection.getresponse()
        text = answer.readline() if answer.status == 200 else answer.read()
        return answer.status, msgspec.json.decode(text.removeprefix(b"data: "))
    finally:
        connection.close()


async def test_rates_belong_to_a_caller(server: ConsoleServer, api: Asking) -> None:
    assert (await api.ask("/rates")).status == 401
    assert (await api.ask("/rates", AS_BARE)).status == 403
    assert server.rates.count == 0
    assert (await api.ask("/rates", AS_ADMIN)).status == 200
    assert server.rates.count == 1
    assert (await api.ask("/rates")).status == 401
    assert (await api.ask("/rates", basic("admin", "guessed"))).status == 403


async def test_figures_of_topics_that_a_user_may_see(cluster: Cluster, api: Asking) -> None:
    allow(cluster.broker, BARE, Topic_Orders="Get", Cluster_DefaultCluster="Get")
    while (answer := await api.ask("/topics?figures=true", AS_BARE)).status != 200:
        assert answer.status == 403  # the name server is told of the policies a moment later
    queues = {row["name"]: row["queues"] for row in answer.content["topics"]}
    assert queues["Orders"] is not None
    assert queues["Secret"] is None
    assert (await api.ask("/rates?topic=Orders", AS_BARE)).status == 200
    assert (await api.ask("/rates?topic=Secret", AS_BARE)).status == 403


async def test_whoever_may_read_a_topic_may_follow_it(
    cluster: Cluster, server: ConsoleServer
) -> None:
    def ask(topic: str) -> tuple[int, Any]:
        return first_event(server.address, f"/topics/{topic}/tail", AS_BARE)

    assert (await asyncio.to_thread(ask, "Orders"))[0] == 403
    allow(cluster.broker, BARE, Topic_Orders="Sub", Group_TOOLS_CONSUMER="Sub")
    while (found := await asyncio.to_thread(ask, "Orders"))[0] != 200:
        assert found[0] == 403  # the name server is told of the policies a moment later
    assert found[1]["arrived"] == 0
    assert (await asyncio.to_thread(ask, "Secret"))[0] == 403
    nobody = await asyncio.to_thread(first_event, server.address, "/topics/Orders/tail", {})
    assert nobody[0] == 401
