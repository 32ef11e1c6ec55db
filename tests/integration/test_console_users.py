"""Users of a console: each sees and does what the cluster's policies allow, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import Stage
from support.brokers.console_parts import Asking, basic
from support.brokers.control_parts import Answer
from support.brokers.secured import ADMIN, BARE, Cluster, allow

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.signing import Credentials
from pocketmq.testing.clock import VirtualClock

AS_ADMIN = basic(ADMIN.access_key, ADMIN.secret_key)
AS_BARE = basic(BARE.access_key, BARE.secret_key)


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start()
        for topic in ("Orders", "Secret"):
            cluster.broker.topics.put(TopicConfig(topic_name=topic))
        yield cluster
        await cluster.close()


@pytest_asyncio.fixture
async def api(cluster: Cluster) -> AsyncIterator[Asking]:
    async with ConsoleServer(cluster.server.address, ConsoleOptions(port=0)) as server:
        yield Asking(server)


def of(answer: Answer) -> tuple[int, str]:
    return answer.status, answer.content.get("title", "")


async def test_whoever_names_no_user_is_asked_for_one(
    api: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of(await api.ask("/topics")) == (401, "A user is needed")
    monkeypatch.setenv("POCKETMQ_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("POCKETMQ_SECRET_KEY", ADMIN.secret_key)
    assert of(await api.ask("/cluster")) == (401, "A user is needed")


async def test_visitors_without_a_name_do_not_hold_one_another_up(
    api: Asking, cluster: Cluster
) -> None:
    answers = [await api.ask("/cluster") for _ in range(20)]
    assert {of(answer) for answer in answers} == {(401, "A user is needed")}
    audit = (cluster.broker.store.directory / "audit.log").read_text()
    assert audit.count('"refused"') <= 2  # the cluster was asked once
    assert (await api.ask("/cluster", headers=AS_ADMIN)).status == 200


async def test_rights_of_the_environment_are_nobodys(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POCKETMQ_ACCESS_KEY", ADMIN.access_key)
    monkeypatch.setenv("POCKETMQ_SECRET_KEY", ADMIN.secret_key)
    async with ConsoleServer(cluster.server.address, ConsoleOptions(port=0)) as server:
        assert (await Asking(server).ask("/topics")).status == 401


@pytest.mark.parametrize(
    ("header", "status"),
    [
        (basic(ADMIN.access_key, "wrong"), 403),
        (basic("nobody", "x"), 403),
        (basic("", "x"), 400),
        ({"Authorization": "Basic ???"}, 400),
        ({"Authorization": "Bearer token"}, 400),
    ],
)
async def test_a_user_that_is_not_known(api: Asking, header: dict[str, str], status: int) -> None:
    answer = await api.ask("/topics", header)
    assert answer.status == status
    assert "secret" not in str(answer.content)


async def test_a_user_does_what_policies_allow(cluster: Cluster, api: Asking) -> None:
    assert (await api.ask("/topics", AS_ADMIN)).status == 200
    messages: dict[str, Any] = {"messages": [{"body": "x"}]}
    path = "/topics/Orders/messages"
    assert of(await api.ask(path, AS_BARE, "POST", messages)) == (
        403, "The user may not do this",
    )  # fmt: skip
    allow(cluster.broker, BARE, Topic_Orders="Pub")
    assert (await api.ask(path, AS_BARE, "POST", messages)).status == 201
    other = await api.ask("/topics/Secret/messages", AS_BARE, "POST", messages)
    assert other.status == 403
    assert (await api.ask(path, AS_ADMIN, "POST", messages)).status == 201


async def test_callers_that_asked_long_ago_make_room(
    cluster: Cluster, api: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.console.api.callers.CALLERS_MAX", 1)
    other = Credentials("other", "x")
    for _ in range(2):
        assert (await api.ask("/topics", AS_ADMIN)).status == 200
        assert (await api.ask("/topics", basic(other.access_key, "x"))).status == 403


async def test_finding_messages_takes_the_rights_of_the_user(cluster: Cluster, api: Asking) -> None:
    allow(cluster.broker, BARE, Topic_Orders="Sub,Get", Group_TOOLS_CONSUMER="Sub,Get")
    for path, status in (
        ("/topics/Orders/lookup?key=x", 200),
        ("/topics/Secret/lookup?key=x", 403),
        ("/topics/Secret/download", 403),
        ("/topics/Secret/messages/broker-a:0:0/body", 403),
        ("/topics/Orders/waiting?kind=timer", 403),  # the records of all topics stand together
        ("/topics/Orders/waiting?kind=level", 403),
        ("/topics/Orders/waiting?kind=half", 403),
        ("/groups/billing/in-flight?topic=Orders", 403),
    ):
        assert (await api.ask(path, AS_BARE)).status == status, path
