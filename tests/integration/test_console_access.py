"""Users, policies and the audit over the console's API, on a cluster that authenticates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import Stage
from support.brokers.console_parts import Asking, basic
from support.brokers.secured import ADMIN, BARE, SETTINGS, Cluster

from pocketmq.console.server import ConsoleOptions, ConsoleServer
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
