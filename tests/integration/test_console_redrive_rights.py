"""Redrives over the API with the rights of the caller, and what the audit tells of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from support.brokers.broker_parts import Stage
from support.brokers.console_parts import Asking, basic
from support.brokers.secured import ADMIN, BARE, Cluster, allow

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.testing.clock import VirtualClock

AS_ADMIN = basic(ADMIN.access_key, ADMIN.secret_key)
AS_BARE = basic(BARE.access_key, BARE.secret_key)
LOOKS = {"Topic_%DLQ%billing": "Get"}
PATH = "/groups/billing/redrives"


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start()
        for topic in ("%DLQ%billing", "Orders"):
            cluster.broker.topics.put(TopicConfig(topic_name=topic, write_queue_nums=1))
        yield cluster
        await cluster.close()


@pytest_asyncio.fixture
async def api(cluster: Cluster) -> AsyncIterator[Asking]:
    async with ConsoleServer(cluster.server.address, ConsoleOptions(port=0)) as server:
        yield Asking(server)


async def give_up(cluster: Cluster, api: Asking) -> None:
    message = {"body": "{}", "properties": {"RETRY_TOPIC": "Orders"}}
    sent = await api.ask(
        "/topics/%25DLQ%25billing/messages", AS_ADMIN, "POST", {"messages": [message]}
    )
    assert sent.status == 201, sent


async def test_orders_need_the_rights_of_their_group(cluster: Cluster, api: Asking) -> None:
    await give_up(cluster, api)
    planned = await api.ask(f"{PATH}/plan", AS_ADMIN, "POST", {"to": "Orders"})
    start = {"order": {"to": "Orders"}, "plan": planned.content["plan"]}
    assert planned.content["count"] == 1
    assert (await api.ask(f"{PATH}/plan", None, "POST", {})).status == 401
    allow(cluster.broker, BARE, **LOOKS, Group_billing="Get")
    assert (await api.ask(PATH, AS_BARE)).status == 200
    for path, body in ((f"{PATH}/plan", {}), (PATH, start)):
        assert (await api.ask(path, AS_BARE, "POST", body)).status == 403, path
    assert (await api.ask(PATH, AS_ADMIN)).content["redrives"] == []
    allow(cluster.broker, BARE, **LOOKS, Group_billing="Get,Update")
    refused = await api.ask(PATH, AS_BARE, "POST", start)
    assert refused.status == 403, "who may not send to a topic may not redrive there"
    allow(cluster.broker, BARE, **LOOKS, Group_billing="Get,Update", Topic_Orders="Pub")
    assert (await api.ask(PATH, AS_BARE, "POST", start)).status == 201


async def test_a_reason_comes_to_the_audit(cluster: Cluster, api: Asking) -> None:
    await give_up(cluster, api)
    order = {"action": "discard", "reason": "of the order"}
    planned = await api.ask(f"{PATH}/plan", AS_ADMIN, "POST", order)
    headers = {**AS_ADMIN, "PocketMQ-Reason": "a known bug"}
    body = {"order": order, "plan": planned.content["plan"]}
    assert (await api.ask(PATH, headers, "POST", body)).status == 201
    audit = (cluster.broker.store.directory / "audit.log").read_text()
    lines = [json.loads(line) for line in audit.splitlines() if "START_REDRIVE" in line]
    assert [(line["user"], line["claimed"]["reason"]) for line in lines] == [
        ("admin", "a known bug")
    ]
    assert lines[0]["after"]["reason"] == "of the order"
