"""The console on Apache's own name server and broker: every look, every page, and some changes."""

from __future__ import annotations

import asyncio
import html
import http.client
import re
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from support.brokers.console_parts import API
from support.brokers.control_parts import Answer, Control
from support.interop.clusters import Cluster

from pocketmq.client import (
    Admin,
    LocalTransactionState,
    Message,
    Producer,
    PullConsumer,
    ReceivedMessage,
    TransactionListener,
    TransactionProducer,
)
from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.runtime.clock import SystemClock

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

NewName = Callable[[str], str]

FILLED = re.compile(r"\{(\w+)\}")

CANNOT = {501, 502, 503}
"""What a broker cannot answer, or refuses: the problem says so."""


class Seen:
    """A console of Apache's cluster with a topic, a message and a group.

    Attributes:
        server: the console.
        names: for the parts of paths.
    """

    def __init__(self, server: ConsoleServer, names: dict[str, str]) -> None:
        self.server, self.names = server, names
        self._api = Control(server.address)

    def filled(self, path: str) -> str:
        return FILLED.sub(lambda part: quote(self.names[part.group(1)], safe=""), path)

    async def api(self, method: str, path: str, body: object = None) -> Answer:
        return await asyncio.to_thread(self._api.ask, method, self.filled(path), body)

    async def page(self, path: str) -> tuple[int, str]:
        def ask() -> tuple[int, str]:
            connection = http.client.HTTPConnection(self.server.address, timeout=60)
            try:
                connection.request("GET", self.filled(path))
                answer = connection.getresponse()
                return answer.status, html.unescape(answer.read().decode())
            finally:
                connection.close()

        return await asyncio.to_thread(ask)


class HourAgo(SystemClock):
    """The time of an hour ago, when nothing of now was due."""

    def now_ms(self) -> int:
        return super().now_ms() - 3_600_000


class Undecided(TransactionListener):
    """Does not say how a transaction ended."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


@pytest_asyncio.fixture
async def seen(
    apache: Cluster, new_name: NewName, request: pytest.FixtureRequest
) -> AsyncIterator[Seen]:
    test = request.node.name.removeprefix("test_")
    topic, group = new_name(f"shown-{test}"), new_name(f"reader-{test}")
    async with Admin(apache.namesrv) as admin:
        await admin.create_topic(topic, 1)
        await admin.create_group(group)
    async with Producer(new_name("producers"), apache.namesrv) as producer:
        sent = [
            await producer.send(Message(topic, f'{{"number": {number}}}', keys=[f"k{number}"]))
            for number in range(3)
        ]
    async with PullConsumer(group, apache.namesrv) as consumer:
        for queue in await consumer.queues(topic):
            await consumer.commit(queue, 1)
    async with ConsoleServer(apache.namesrv, ConsoleOptions(port=0)) as server:
        broker = sent[0].queue.broker_name
        names = {"topic": topic, "group": group, "id": sent[0].msg_id, "broker": broker}
        yield Seen(server, {**names, "user": "nobody", "result": "none", "redrive": "none"})


QUERIES = {
    "/topics/{topic}/messages": "?start=earliest",
    "/topics/{topic}/download": "?start=earliest",
    "/topics/{topic}/lookup": "?key=k1",
    "/topics/{topic}/messages/{id}/explanation": "?group={group}",
    "/topics/{topic}/messages/{id}/difference": "?other={id}",
    "/users/{user}/explanation": "?action=Pub&resource=Topic:x",
    "/groups/{group}/dead-letters": "?start=earliest",
    "/groups/{group}/in-flight": "?topic={topic}",
}
OF_USERS = ("/users", "/audit", "/new-user")
"""Apache's broker here authenticates nobody: some of these looks it refuses."""

OF_REDRIVES = ("/dead-letters", "/groups/{group}/redrives/{redrive}")
"""Apache's brokers carry no redrives out."""


@pytest.mark.whole_interop
async def test_every_look_of_the_api_is_answered(seen: Seen) -> None:
    looked = 0
    for one in seen.server.operations:
        path = one.path.removeprefix(API)
        if one.method != "GET" or path.endswith("/tail"):
            continue
        if path.startswith(OF_REDRIVES):
            status, text = await seen.page(one.path)
            assert status in {404, 501}, (path, text)
            continue
        looked += 1
        if path.endswith("/download"):  # lines, not one document
            status, text = await seen.page(one.path + QUERIES[path])
            assert (status, text.count('"msgId"')) == (200, 3)
            continue
        answer = await seen.api("GET", one.path + QUERIES.get(path, ""))
        if path.startswith(OF_USERS):
            assert answer.status in {200, 404, *CANNOT}, (path, answer)
        else:
            assert answer.status == 200, (path, answer)
        if answer.status != 200:
            assert answer.content["detail"], path
            assert answer.content["remedy"], path
    assert looked > 15


async def test_every_page_is_shown(seen: Seen) -> None:
    looked = 0
    for route in seen.server._pages.routes():
        path = getattr(route, "path", "")
        if "GET" not in (getattr(route, "methods", None) or ()) or "{result}" in path:
            continue
        status, text = await seen.page(path + QUERIES.get(path, ""))
        looked += 1
        assert "<h1>" in text, path
        if path.startswith((*OF_USERS, *OF_REDRIVES)):
            assert status in {200, 404, *CANNOT}, (path, text)
        else:
            assert status == 200, (path, text)
    assert looked > 20


@pytest.mark.whole_interop
async def test_dead_letters_are_shown_without_states_and_not_redriven(
    seen: Seen, apache: Cluster
) -> None:
    group = seen.names["group"]
    dead = f"%DLQ%{group}"
    async with Admin(apache.namesrv) as admin, Producer("dying", apache.namesrv) as producer:
        await admin.create_topic(dead, 1)
        message = Message(dead, b"x", keys=["k"], properties={"PQ_LAST_ERROR": "timeout"})
        await producer.send(message)
    path = f"{API}/groups/{{group}}"
    found = (await seen.api("GET", f"{path}/dead-letters")).content
    (one,) = found["messages"]
    assert (one["keys"], one["state"], one["lastError"]) == (["k"], None, "timeout")
    assert "PocketMQ's own" in found["unknownStates"]
    (error,) = (await seen.api("GET", f"{path}/dead-letters/errors")).content["errors"]
    assert (error["error"], error["count"]) == ("timeout", 1)
    status, text = await seen.page("/groups/{group}/dead-letters")
    assert status == 200
    assert "Nobody knows what became of them" in text
    status, text = await seen.page("/groups/{group}/redrive?of=all")
    assert status == 200
    assert "know no redrives" in text
    for method, further, body in (
        ("GET", "/dead-letters?state=open", None),
        ("GET", "/redrives", None),
        ("POST", "/redrives/plan", {}),
    ):
        refused = await seen.api(method, path + further, body)
        assert refused.status == 501, further
        assert "PocketMQ's own" in refused.content["detail"]


async def test_messages_are_sent_and_found(seen: Seen) -> None:
    path = f"{API}/topics/{{topic}}/messages"
    message: dict[str, Any] = {"body": "sent here", "keys": ["own"], "properties": {"a": "b"}}
    answer = await seen.api("POST", path, {"messages": [message]})
    assert (answer.status, answer.content["messages"][0]["status"]) == (201, "SEND_OK")
    found = await seen.api("GET", f"{path}?start=earliest&key=own")
    assert [(m["body"], m["properties"]["a"]) for m in found.content["messages"]] == [
        ("sent here", "b")
    ]
    shown = (await seen.api("GET", f"{API}/topics/{{topic}}")).content
    assert shown["messages"] == 4
    assert shown["silent"] == []


@pytest.mark.whole_interop
async def test_offsets_are_looked_at_and_reset(seen: Seen) -> None:
    path = f"{API}/groups/{{group}}/offsets"
    wanted = {"topic": seen.names["topic"], "to": "earliest"}
    preview = await seen.api("POST", path, {**wanted, "preview": True})
    assert [(q["before"], q["after"]) for q in preview.content["queues"]] == [(1, 0)]
    done = await seen.api("POST", path, wanted)
    assert (done.status, done.content["isDone"]) == (200, True)
    lag = (await seen.api("GET", f"{API}/groups/{{group}}")).content
    of_topic = [q for q in lag["queues"] if q["topic"] == seen.names["topic"]]
    assert [(q["committed"], q["left"]) for q in of_topic] == [(0, 3)]


@pytest.mark.whole_interop
async def test_topics_and_groups_are_made_and_deleted(seen: Seen, new_name: NewName) -> None:
    seen.names |= {"topic": new_name("made"), "group": new_name("made")}
    topic, group = f"{API}/topics/{{topic}}", f"{API}/groups/{{group}}"
    assert (await seen.api("POST", topic, {"queues": 2})).status == 201
    changed = await seen.api("PUT", topic, {"writeQueues": 1})
    assert [s["writeQueues"] for s in changed.content["settings"].values()] == [1]
    assert (await seen.api("POST", group, {"retryMaxTimes": 3})).status == 201
    assert (await seen.api("DELETE", group)).status == 200
    assert (await seen.api("GET", group)).status == 404
    assert (await seen.api("DELETE", topic)).status == 200
    assert (await seen.api("GET", topic)).status == 404


@pytest.mark.whole_interop
async def test_what_waits_is_found_and_called_back(seen: Seen, apache: Cluster) -> None:
    topic = seen.names["topic"]
    async with TransactionProducer("waiting", apache.namesrv, listener=Undecided()) as producer:
        await producer.send_in_transaction(Message(topic, b"x", keys=["half"]))
        await producer.send(Message(topic, b"x", keys=["level"], delay_level=18))
        for key in ("kept", "recalled"):
            timer = await producer.send(Message(topic, b"x", keys=[key], delay_ms=3_600_000))
        path = f"{API}/topics/{{topic}}/waiting"
        kinds: dict[str, Any] = {}
        options = ConsoleOptions(port=0)
        async with ConsoleServer(apache.namesrv, options, HourAgo()) as server:
            before = Seen(server, seen.names)
            for kind in ("level", "timer", "half"):
                kinds[kind] = (await before.api("GET", f"{path}?kind={kind}&scan=100000")).content
    keys = {
        kind: sorted(key for one in found["messages"] for key in one["message"]["keys"])
        for kind, found in kinds.items()
    }
    assert keys == {"level": ["level"], "timer": ["kept", "recalled"], "half": ["half"]}
    (level,) = kinds["level"]["messages"]
    assert level["dueMs"] - level["message"]["storeTimestamp"] == 1000, "the level's time there"
    for one in kinds["timer"]["messages"]:
        assert one["dueMs"] - one["message"]["bornTimestamp"] in range(3_590_000, 3_610_000)
    done = await seen.api("DELETE", f"{path}/{timer.msg_id}")
    assert (done.status, done.content) == (200, {"recalled": timer.msg_id})


@pytest.mark.whole_interop
async def test_conditions_look_into_bodies(seen: Seen) -> None:
    where = quote("body.number BETWEEN 1 AND 5")
    path = f"{API}/topics/{{topic}}/messages?start=earliest&where={where}"
    found = (await seen.api("GET", path)).content
    assert sorted(m["keys"][0] for m in found["messages"]) == ["k1", "k2"]
    assert (found["scanned"], found["stopped"]) == (3, "end")
