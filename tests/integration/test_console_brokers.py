"""Brokers, broker sets, settings and name servers over the console's API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.runtime import VERSION

SETTINGS = f"{API}/brokers/broker-a/settings"


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2}) as running:
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


@pytest.fixture(scope="module")
def replicated() -> Iterator[Consoled]:
    with consoled(replicas=2, topics={"Orders": 1}, grpc_port=-1) as running:
        yield running


# -- brokers --------------------------------------------------------------------------------------


def test_a_broker_of_no_set(api: Control, shared: Consoled) -> None:
    shown = api.ok("GET", f"{API}/brokers/broker-b")
    assert (shown["name"], shown["isSet"], shown["leader"]) == ("broker-b", False, None)
    (member,) = shown["members"]
    assert (member["role"], member["problem"]) == ("master", None)
    assert member["address"] == shared.cluster.brokers["broker-b"]
    assert "putTps" in member["figures"]
    assert member["startedMs"] > 0
    assert api.problem("GET", f"{API}/brokers/nobody")["status"] == 404


def test_a_broker_without_figures_is_shown_with_the_reason(shared: Consoled) -> None:
    busy = shared.cluster.faults.answer(
        "SYSTEM_BUSY", "too busy", request="GET_BROKER_RUNTIME_INFO", broker="broker-b"
    )
    with busy:
        (member,) = shared.api.ok("GET", f"{API}/brokers/broker-b")["members"]
        assert "too busy" in member["problem"]
        (other,) = shared.api.ok("GET", f"{API}/brokers/broker-a")["members"]
        assert other["problem"] is None


def test_a_broker_set_with_its_roles(replicated: Consoled) -> None:
    shown = replicated.api.ok("GET", f"{API}/brokers/broker-a")
    assert (shown["isSet"], shown["arbiter"]) == (True, "answers")
    roles = {member["role"]: member for member in shown["members"]}
    assert set(roles) == {"leader", "follower"}
    leader, follower = roles["leader"], roles["follower"]
    assert (shown["leader"], shown["epoch"] >= 1) == (leader["id"], True)
    assert shown["inSync"] == sorted([leader["id"], follower["id"]])
    assert (leader["lag"], leader["inSync"], follower["inSync"]) == (0, True, True)
    assert "putTps" in leader["figures"]
    assert shown["changedMs"] > 0


def test_a_member_that_is_away_empties_nothing(replicated: Consoled) -> None:
    shown = replicated.api.ok("GET", f"{API}/brokers/broker-a")
    follower = next(m for m in shown["members"] if m["role"] == "follower")
    with replicated.cluster.faults.kill(f"broker-a/{follower['id']}"):
        shown = replicated.api.ok("GET", f"{API}/brokers/broker-a")
        away = next(m for m in shown["members"] if m["id"] == follower["id"])
        assert away["role"] == "absent"
        assert away["problem"]
        assert sum(m["role"] == "leader" for m in shown["members"]) == 1


# -- settings -------------------------------------------------------------------------------------


def setting(api: Control, key: str) -> Any:
    (found,) = (
        each
        for each in api.ok("GET", f"{SETTINGS}?contains={key}")["details"]
        if each["key"] == key
    )
    return found


def test_settings_tell_their_origin(api: Control) -> None:
    shown = api.ok("GET", SETTINGS)
    assert shown["settings"]["brokerName"] == "broker-a"
    assert setting(api, "fileReservedTime") == {
        "key": "fileReservedTime", "value": "72", "default": "72", "configured": "72",
        "origin": "default", "isLive": True,
    }  # fmt: skip
    root = setting(api, "storePathRootDir")
    assert (root["origin"], root["isLive"]) == ("configuration", False)
    changed = api.ok("GET", f"{SETTINGS}?changed=true")["details"]
    assert 0 < len(changed) < len(shown["details"])
    assert all(each["value"] != each["default"] for each in changed)
    assert api.problem("GET", f"{SETTINGS}?address=nowhere:1")["status"] == 404


def test_settings_are_changed_after_a_preview(api: Control) -> None:
    version = api.ok("GET", SETTINGS)["version"]
    wanted = {"changes": {"fileReservedTime": "48"}, "version": version}
    preview = api.ok("PUT", SETTINGS, {**wanted, "preview": True})
    assert (preview["isDone"], preview["isChecked"]) == (False, True)
    assert preview["changes"] == [
        {"key": "fileReservedTime", "before": "72", "after": "48", "default": "72",
         "origin": "default"}
    ]  # fmt: skip
    assert setting(api, "fileReservedTime")["value"] == "72"
    done = api.ok("PUT", SETTINGS, wanted)
    assert done["isDone"]
    assert done["version"] != version
    now = setting(api, "fileReservedTime")
    assert (now["value"], now["origin"]) == ("48", "run time")
    late = api.problem("PUT", SETTINGS, {"changes": {"fileReservedTime": "9"}, "version": version})
    assert (late["status"], late["title"]) == (409, "The settings were changed meanwhile")
    back = api.ok("PUT", SETTINGS, {"changes": {"fileReservedTime": "72"}})
    assert back["changes"][0]["origin"] == "run time"
    assert setting(api, "fileReservedTime")["origin"] == "default"


@pytest.mark.parametrize("preview", [True, False])
@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"fileReservedTme": "1"}, 400, "fileReservedTime"),
        ({"fileReservedTime": "0"}, 400, "it must be between 1 and"),
        ({"fileReservedTime": "9", "brokerPermission": "9"}, 400, "brokerPermission is 9"),
        ({"listenPort": "1"}, 409, "listenPort is read at the start"),
        ({}, 400, "changes"),
    ],
)
def test_a_change_that_does_not_fit_changes_nothing(
    api: Control, changes: dict[str, str], status: int, words: str, preview: bool
) -> None:
    problem = api.problem("PUT", SETTINGS, {"changes": changes, "preview": preview})
    assert problem["status"] == status
    assert words in problem["detail"]
    assert setting(api, "fileReservedTime")["value"] == "72"


def test_a_read_only_console_changes_no_setting(shared: Consoled) -> None:
    with console(shared.cluster, read_only=True) as running:
        wanted = {"changes": {"fileReservedTime": "48"}}
        problem = running.api.problem("PUT", SETTINGS, wanted)
        assert problem["title"] == "This console is read-only"
        assert running.api.ok("PUT", SETTINGS, {**wanted, "preview": True})["isDone"] is False
    assert setting(shared.api, "fileReservedTime")["value"] == "72"


# -- name servers ---------------------------------------------------------------------------------


def test_name_servers_with_what_they_know(api: Control, shared: Consoled) -> None:
    (server,) = api.ok("GET", f"{API}/name-servers")["nameServers"]
    assert (server["address"], server["problem"]) == (shared.cluster.namesrv, None)
    assert server["release"] == VERSION
    assert server["brokers"] == ["broker-a:0", "broker-b:0"]
    assert server["settings"]["listenPort"]


def test_a_name_server_that_is_down_hides_no_other(shared: Consoled) -> None:
    namesrv, run = shared.cluster.namesrv, shared.cluster.thread.run
    server = ConsoleServer(f"{namesrv};127.0.0.1:1", ConsoleOptions(port=0))
    run(server.__aenter__())
    try:
        up, down = Control(server.address).ok("GET", f"{API}/name-servers")["nameServers"]
    finally:
        run(server.__aexit__())
    assert up["brokers"] == ["broker-a:0", "broker-b:0"]
    assert "127.0.0.1:1" in down["problem"]
    assert (up["missing"], down["missing"], down["settings"]) == ([], [], None)
