"""Users, policies and the audit over the console's API, on a cluster that authenticates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from support.brokers.broker_parts import LOCALHOST, Stage
from support.brokers.console_parts import Asking, basic
from support.brokers.secured import ADMIN, BARE, SETTINGS, Cluster

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.testing.clock import VirtualClock

AS_ADMIN = basic(ADMIN.access_key, ADMIN.secret_key)
AS_BARE = basic(BARE.access_key, BARE.secret_key)
SECRET = "never-to-be-seen-7"


@pytest_asyncio.fixture
async def cluster(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Cluster]:
    async with Stage(tmp_path, clock, seed=7) as stage:
        cluster = Cluster(stage, clock)
        await cluster.start(audit_topic="Audit")
        yield cluster
        await cluster.close()


@pytest_asyncio.fixture
async def api(cluster: Cluster) -> AsyncIterator[Asking]:
    async with ConsoleServer(cluster.server.address, ConsoleOptions(port=0)) as server:
        yield Asking(server, AS_ADMIN)


# -- users ----------------------------------------------------------------------------------------


async def test_a_user_is_created_changed_and_deleted(api: Asking, cluster: Cluster) -> None:
    made = await api.ok("POST", "/users/shop", {"password": SECRET})
    assert made == {"user": "shop", "brokers": ["broker-a"], "silent": []}
    listed = await api.ok("GET", "/users?contains=SHOP")
    assert listed["users"] == [
        {
            "name": "shop",
            "versions": [{"type": "Normal", "status": "enable", "brokers": ["broker-a"]}],
        }
    ]
    assert (await api.ok("GET", "/users?limit=1"))["next"] == "admin"
    again = await api.problem("POST", "/users/shop", {"password": SECRET})
    assert (again["status"], again["title"]) == (409, "The user exists")
    as_shop = basic("shop", SECRET)
    assert (await api.ask("/topics", as_shop)).status == 403  # nothing is allowed yet
    await api.ok("PUT", "/users/shop", {"type": "Super"})
    assert (await api.ask("/topics", as_shop)).status == 200
    await api.ok("PUT", "/users/shop", {"password": "another-one-8"})
    assert (await api.ask("/topics", as_shop)).status == 403
    assert (await api.ask("/topics", basic("shop", "another-one-8"))).status == 200
    await api.ok("PUT", "/users/shop", {"status": "disable"})
    shown = await api.ok("GET", "/users/shop")
    assert shown["versions"][0]["status"] == "disable"
    await api.ok("DELETE", "/users/shop")
    assert cluster.users.user("shop") is None
    for method, body in (("GET", None), ("PUT", {"type": "Super"}), ("DELETE", None)):
        assert (await api.problem(method, "/users/shop", body))["status"] == 404


async def test_no_answer_and_no_log_has_a_password(
    api: Asking, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("DEBUG")
    answers = [
        await api.ask("/users/shop", None, "POST", {"password": SECRET, "type": "Chief"}),
        await api.ask("/users/shop", None, "POST", {"password": SECRET}),
        await api.ask("/users/shop", None, "POST", {"password": SECRET}),
        await api.ask("/users/shop", None, "PUT", {"password": SECRET}),
        await api.ask("/users/shop", None, "PUT", {"password": SECRET, "no": 1}),
        await api.ask("/users"),
        await api.ask("/users/shop"),
    ]
    assert [answer.status for answer in answers] == [400, 201, 409, 200, 400, 200, 200]
    assert SECRET not in str(answers) + caplog.text
    assert SECRET not in (tmp_path / "store" / "audit.log").read_text()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/users/shop", {}),
        ("POST", "/users/shop", {"password": ""}),
        ("PUT", "/users/bare", {}),
        ("PUT", "/users/bare", {"type": "Chief"}),
        ("PUT", "/users/bare/policies", {"resources": [], "actions": ["Pub"]}),
        ("PUT", "/users/bare/policies", {"resources": ["Topic:a"], "actions": ["Fly"]}),
        ("GET", "/users/bare/explanation?action=Fly&resource=Topic:a", None),
        ("GET", "/users/bare/explanation?action=Pub&resource=Topic:a*", None),
        ("GET", "/users/bare/explanation?action=Pub", None),
    ],
)
async def test_what_does_not_fit_is_refused(api: Asking, method: str, path: str, body: Any) -> None:
    assert (await api.problem(method, path, body))["status"] == 400


# -- policies -------------------------------------------------------------------------------------


async def test_policies_decide_and_are_explained(api: Asking) -> None:
    entries = {"resources": ["Topic:orders*", "Group:shop"], "actions": ["Pub", "Get"]}
    await api.ok("PUT", "/users/bare/policies", entries)
    deny = {"resources": ["Topic:orders-old"], "actions": ["Pub"], "decision": "Deny",
            "sourceIps": ["10.0.0.0/8"], "type": "Default"}  # fmt: skip
    await api.ok("PUT", "/users/bare/policies", deny)
    shown = await api.ok("GET", "/users/bare")
    assert [
        (p["resource"], p["actions"], p["decision"], p["type"], p["sourceIps"])
        for p in shown["policies"]
    ] == [
        ("Group:shop", ["Pub", "Get"], "Allow", "Custom", []),
        ("Topic:orders*", ["Pub", "Get"], "Allow", "Custom", []),
        ("Topic:orders-old", ["Pub"], "Deny", "Default", ["10.0.0.0/8"]),
    ]
    path = "/users/bare/explanation?action=Pub&resource="
    allowed = await api.ok("GET", f"{path}Topic:orders-1")
    assert allowed["isAllowed"]
    assert allowed["verdicts"][0]["entry"] == "Allow Get,Pub on Topic:orders*"
    other = await api.ok("GET", f"{path}Topic:secret&ip=10.1.2.3")
    assert not other["isAllowed"]
    assert "no entry fits Topic:secret" in other["verdicts"][0]["reason"]
    await api.ok("DELETE", "/users/bare/policies?resource=Topic:orders*")
    denied = await api.ok("GET", f"{path}Topic:orders-old&ip=10.1.2.3")
    assert denied["verdicts"][0]["entry"] == "Deny Pub on Topic:orders-old"
    gone = await api.problem("DELETE", "/users/bare/policies?resource=Topic:orders*")
    assert gone["status"] == 404


async def test_only_those_who_may_see_and_change_users(api: Asking, cluster: Cluster) -> None:
    for method, path, body in (
        ("GET", "/users", None),
        ("POST", "/users/shop", {"password": SECRET}),
        ("DELETE", "/users/admin", None),
        ("PUT", "/users/bare", {"type": "Super"}),
        ("PUT", "/users/bare/policies", {"resources": ["*"], "actions": ["All"]}),
    ):
        assert (await api.ask(path, AS_BARE, method, body)).status == 403, path
    options = ConsoleOptions(port=0, read_only=True)
    async with ConsoleServer(cluster.server.address, options) as server:
        reading = Asking(server, AS_ADMIN)
        assert (await reading.ask("/users")).status == 200
        for method, path, body in (
            ("POST", "/users/shop", {"password": SECRET}),
            ("PUT", "/users/bare", {"type": "Super"}),
            ("DELETE", "/users/bare", None),
            ("PUT", "/users/bare/policies", {"resources": ["*"], "actions": ["All"]}),
            ("DELETE", "/users/bare/policies", None),
        ):
            answer = await reading.ask(path, None, method, body)
            assert answer.content["title"] == "This console is read-only"
    assert cluster.users.user("shop") is None


async def test_a_broker_that_does_not_answer_hides_no_user(
    api: Asking, cluster: Cluster, tmp_path: Path
) -> None:
    other = await cluster.stage.broker(
        namesrv_addr=cluster.server.address, broker_name="broker-b",
        store_path_root_dir=str(tmp_path / "b"), **SETTINGS,
    )  # fmt: skip
    both = await api.ok("GET", "/users/admin")
    assert both["versions"][0]["brokers"] == ["broker-a", "broker-b"]
    await other.server.close()
    listed = await api.ok("GET", "/users")
    assert [user["name"] for user in listed["users"]] == ["admin", "bare", "inner"]
    assert [silent["broker"] for silent in listed["silent"]] == ["broker-b"]
    made = await api.ok("POST", "/users/shop", {"password": SECRET})
    assert (made["brokers"], made["silent"][0]["broker"]) == (["broker-a"], "broker-b")


# -- the audit ------------------------------------------------------------------------------------


async def test_the_audit_tells_who_has_changed_what_by_the_console(
    api: Asking, cluster: Cluster
) -> None:
    reason = {"PocketMQ-Reason": quote("für die Übung")}
    made = await api.ask("/topics/Made", AS_ADMIN | reason, "POST", {})
    assert made.status == 201
    await api.ok("PUT", "/users/bare/policies", {"resources": ["Cluster:*"], "actions": ["All"]})
    assert (await api.ask("/topics/Other", AS_BARE, "POST", {})).status == 403
    await api.ok("PUT", "/users/bare", {"password": SECRET, "type": "Super"})
    found = await api.ok("GET", "/audit")
    assert (found["stopped"], found["next"], found["unreadable"]) == ("end", None, 0)
    assert found["sources"] == [{"broker": "broker-a", "topic": "Audit", "problem": None}]
    user, refused, *_, topic = found["records"]
    assert (user["user"], user["request"], user["result"]) == ("admin", "AUTH_UPDATE_USER", 0)
    assert user["after"] == {"type": "Super", "status": "enable"}
    assert (refused["event"], refused["user"], refused["isProven"]) == ("refused", "bare", True)
    assert (topic["user"], topic["fields"]["topic"]) == ("admin", "Made")
    assert topic["claimed"]["reason"] == "für die Übung"
    assert topic["claimed"]["address"].startswith("127.0.0.1:")
    assert topic["claimed"]["address"] != topic["address"]  # of the console's own connection
    assert "pqReason" not in topic["fields"]
    times = [record["timeMs"] for record in found["records"]]
    assert times == sorted(times, reverse=True)
    assert SECRET not in str(found)


async def test_the_audit_is_filtered(api: Asking) -> None:
    for number in range(3):
        await api.ok("POST", f"/topics/Made{number}", {})
    await api.ok("PUT", "/users/bare/policies", {"resources": ["Cluster:*"], "actions": ["All"]})
    await api.ask("/topics/Other", AS_BARE, "POST", {})

    async def topics(query: str) -> list[str]:
        records = (await api.ok("GET", f"/audit?{query}"))["records"]
        return [record["fields"].get("topic", record["event"]) for record in records]

    assert await topics("user=admin&action=create_topic") == ["Made2", "Made1", "Made0"]
    assert await topics("action=17&resource=made1") == ["Made1"]
    assert await topics("user=bare&outcome=refused") == ["refused"]
    assert await topics("user=bare&outcome=done") == []
    assert await topics("outcome=failed") == []
    too_long = await api.ask("/topics/X", AS_ADMIN | {"PocketMQ-Reason": "x" * 201}, "POST", {})
    assert too_long.status == 400


@pytest.mark.parametrize(("bound", "stopped"), [("limit=3", "limit"), ("scan=3", "scan")])
async def test_the_audit_goes_on_where_it_has_stopped(
    api: Asking, monkeypatch: pytest.MonkeyPatch, bound: str, stopped: str
) -> None:
    monkeypatch.setattr("pocketmq.console.api.access.audit_reading.BLOCK", 2)
    for number in range(7):
        await api.ok("POST", f"/topics/Made{number}", {})
    everything = (await api.ok("GET", "/audit"))["records"]
    assert len(everything) == 7
    seen, path = [], f"/audit?{bound}"
    while path:
        found = await api.ok("GET", path)
        assert found["scanned"] <= 3
        seen += found["records"]
        assert found["stopped"] == (stopped if found["next"] else "end")
        path = f"/audit?{bound}&cursor={quote(found['next'])}" if found["next"] else ""
    assert seen == everything
    assert (await api.problem("GET", "/audit?cursor=x"))["status"] == 400


async def test_what_others_send_to_the_audit_is_counted(api: Asking) -> None:
    await api.ok("POST", "/topics/Made", {})
    await api.ok("POST", "/topics/Audit/messages", {"messages": [{"body": "<b>no record</b>"}]})
    found = await api.ok("GET", "/audit")
    assert (len(found["records"]), found["scanned"], found["unreadable"]) == (1, 2, 1)


async def test_the_audit_is_for_those_who_may_read_its_topic(api: Asking) -> None:
    await api.ok("POST", "/topics/Made", {})
    entries = {"resources": ["Cluster:*"], "actions": ["Get"]}
    await api.ok("PUT", "/users/bare/policies", entries)
    assert (await api.ask("/audit", AS_BARE)).status == 403
    await api.ok("PUT", "/users/bare/policies", {"resources": ["Topic:Audit", "Group:*"],
                                                 "actions": ["Sub"]})  # fmt: skip
    assert (await api.ask("/audit", AS_BARE)).status == 200


async def test_brokers_without_an_audit_topic_say_so(stage: Stage, clock: VirtualClock) -> None:
    async with NameServer(NamesrvConfig(listen_port=0, bind_address=LOCALHOST), clock) as namesrv:
        await stage.broker(namesrv_addr=namesrv.address)
        async with ConsoleServer(namesrv.address, ConsoleOptions(port=0)) as server:
            found = await Asking(server).ok("GET", "/audit")
    assert found["sources"] == [{"broker": "broker-a", "topic": None, "problem": None}]
    assert (found["records"], found["stopped"]) == ([], "end")
