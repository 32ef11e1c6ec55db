"""Dead letters and redrives over the console's API."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control
from support.brokers.letter_parts import ended, give_up, names_of, redriven


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2, "Fixed": 1}) as running:
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


_numbers = iter(range(1000))


@pytest.fixture
def group(shared: Consoled) -> str:
    """A group of its own, with dead letters on both brokers."""
    name = f"billing-{next(_numbers)}"
    shared.cluster.create_group(name)
    for number in range(6):
        broker = "broker-b" if number > 3 else "broker-a"
        give_up(
            shared, name, f'{{"order": {number}}}'.encode(), broker=broker, keys=[f"k{number}"],
            tags="eu" if number % 2 else "us",
            error=f"KeyError: order 47{number} has no known currency",
        )  # fmt: skip
    give_up(shared, name, b"\xff\x00", error="timeout", properties={"region": "far"})
    return name


def letters(api: Control, group: str, query: str = "") -> Any:
    return api.ok("GET", f"{API}/groups/{group}/dead-letters{query}")


def post(api: Control, group: str, path: str, body: object = None) -> Any:
    return api.ok("POST", f"{API}/groups/{group}/redrives{path}", body)


# -- looking ------------------------------------------------------------------------------------


def test_all_groups_with_what_became_of_their_dead_letters(api: Control, group: str) -> None:
    redriven(api, group, {"selection": {"key": "k0"}})
    redriven(api, group, {"action": "discard", "selection": {"key": "k5"}})
    found = {each["group"]: each for each in api.ok("GET", f"{API}/dead-letters")["groups"]}
    one = found[group]
    assert (one["open"], one["redriven"], one["discarded"]) == (5, 1, 1)
    assert 0 < one["oldestMs"] <= one["newestMs"]


def test_dead_letters_with_state_error_and_origin(api: Control, group: str) -> None:
    redriven(api, group, {"selection": {"key": "k1"}})
    found = letters(api, group)
    assert (found["scanned"], found["unknownStates"]) == (7, None)
    by_key = {each["keys"][0]: each for each in found["messages"] if each["keys"]}
    one = by_key["k1"]
    assert (one["state"], one["origin"]) == ("redriven", "Orders")
    assert one["lastError"] == "KeyError: order 471 has no known currency"
    assert by_key["k5"]["state"] == "open"
    assert len(one["offsetMsgId"]) == 32
    assert len(found["messages"]) == 7


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("?state=open", "k0 k2 k3 k4 k5 -"),
        ("?state=redriven", "k1"),
        ("?state=discarded", ""),
        ("?tag=eu&state=open", "k3 k5"),
        ("?key=k4", "k4"),
        ("?error=order%20473", "k3"),
        ("?where=region%20%3D%20%27far%27", "-"),
        ("?topic=Orders&limit=500", "k0 k1 k2 k3 k4 k5 -"),
        ("?topic=Others", ""),
        ("?until=2001-01-01T00:00", ""),
        ("?since=2001-01-01T00:00&error=timeout", "-"),
        ("?since=2101-01-01T00:00", ""),
    ],
)
def test_dead_letters_are_looked_for(api: Control, group: str, query: str, keys: str) -> None:
    redriven(api, group, {"selection": {"key": "k1"}})
    assert sorted(names_of(letters(api, group, query))) == sorted(keys.split())


def test_errors_of_one_cause_are_counted_together(api: Control, group: str) -> None:
    errors = f"{API}/groups/{group}/dead-letters/errors"
    found = api.ok("GET", errors)
    assert (found["scanned"], found["left"], found["others"]) == (7, 0, 0)
    most, other = found["errors"]
    assert (most["count"], most["error"]) == (6, "KeyError: order # has no known currency")
    assert (other["count"], other["error"], other["contains"]) == (1, "timeout", "timeout")
    assert names_of(letters(api, group, "?error=has%20no%20known%20currency")) == [
        f"k{n}" for n in range(6)
    ]
    assert most["contains"] == "has no known currency"
    assert most["example"].split(":")[0] in ("broker-a", "broker-b")
    few = api.ok("GET", f"{errors}?scan=4")
    assert (few["scanned"], few["left"]) == (4, 3)
    (eu,) = api.ok("GET", f"{errors}?tag=eu&state=open")["errors"]
    assert eu["count"] == 3


def test_a_group_without_dead_letters_has_none(api: Control) -> None:
    assert letters(api, "nobody")["messages"] == []
    assert letters(api, "nobody", "/errors")["errors"] == []
    assert api.ok("GET", f"{API}/groups/nobody/redrives")["redrives"] == []
    plan = post(api, "nobody", "/plan", {})
    assert (plan["count"], plan["plan"], plan["samples"]) == (0, "", [])
    path = f"{API}/groups/nobody/redrives"
    assert api.problem("GET", f"{path}/r1")["status"] == 404
    assert api.problem("GET", f"{path}/r1/results")["status"] == 404
    assert api.problem("POST", f"{path}/r1/pause")["status"] == 404


# -- plans and redrives -------------------------------------------------------------------------


def test_a_plan_tells_of_all_brokers_together(api: Control, group: str) -> None:
    plan = post(api, group, "/plan", {"edit": {"mergePatch": {"order": None, "paid": True}}})
    assert (plan["count"], plan["scanned"]) == (7, 7)
    assert plan["brokers"] == {"broker-a": 5, "broker-b": 2}
    assert plan["targets"] == {f"%RETRY%{group}": 6}
    ((reason, count),) = plan["refused"].items()
    assert count == 1
    assert "no JSON" in reason
    assert plan["warnings"] == ["broker-a: 1 of 5 would be refused"]
    sample = plan["samples"][0]
    assert (sample["broker"], sample["queue"], sample["offset"]) == ("broker-a", 0, 0)
    assert json.loads(sample["before"]) == {"order": 0}
    assert json.loads(sample["after"]) == {"paid": True}
    assert sample["propertiesAfter"]["PQ_REDRIVE_EDITED"] == "true"
    assert {each["broker"] for each in plan["samples"]} == {"broker-a", "broker-b"}


def test_a_redrive_is_carried_out_on_all_brokers(
    shared: Consoled, api: Control, group: str
) -> None:
    order = {"edit": {"mergePatch": {"paid": True}, "tags": "again"}, "reason": "fixed"}
    plan = post(api, group, "/plan", order)
    begun = post(api, group, "", {"order": order, "plan": plan["plan"]})["redrive"]
    assert begun["redrive"] == plan["redrive"]
    one = ended(api, group, plan["redrive"])
    assert (one["state"], one["isActive"]) == ("done", False)
    assert (one["planned"], one["done"], one["sent"], one["refused"]) == (7, 7, 6, 1)
    assert (one["reason"], one["isEdited"], one["action"]) == ("fixed", True, "redrive")
    assert {each["broker"]: each["sent"] for each in one["brokers"]} == {
        "broker-a": 4, "broker-b": 2,
    }  # fmt: skip
    stored = shared.cluster.stored(f"%RETRY%{group}")
    assert sorted(json.loads(m.body)["order"] for m in stored) == list(range(6))
    assert {m.tags for m in stored} == {"again"}
    (listed,) = api.ok("GET", f"{API}/groups/{group}/redrives")["redrives"]
    assert listed == one


def test_the_same_start_twice_is_one_redrive(shared: Consoled, api: Control, group: str) -> None:
    plan = post(api, group, "/plan", {})
    for _ in range(2):
        post(api, group, "", {"order": {}, "plan": plan["plan"]})
        ended(api, group, plan["redrive"])
    assert len(shared.cluster.stored(f"%RETRY%{group}")) == 7
    assert len(api.ok("GET", f"{API}/groups/{group}/redrives")["redrives"]) == 1


def test_another_order_than_the_planned_one_is_refused(api: Control, group: str) -> None:
    word = post(api, group, "/plan", {"selection": {"key": "k1"}})["plan"]
    path = f"{API}/groups/{group}/redrives"
    problem = api.problem("POST", path, {"order": {}, "plan": word})
    assert (problem["status"], problem["title"]) == (409, "The plan is of another order")
    assert api.problem("POST", path, {"order": {}, "plan": "nonsense"})["status"] == 400
    assert api.problem("POST", path, {"order": {}, "plan": ""})["status"] == 400
    assert api.ok("GET", path)["redrives"] == []


def test_dead_letters_that_have_changed_since_the_plan_are_not_touched(
    api: Control, group: str
) -> None:
    word = post(api, group, "/plan", {})["plan"]
    redriven(api, group, {"selection": {"key": "k0"}})
    problem = api.problem("POST", f"{API}/groups/{group}/redrives", {"order": {}, "plan": word})
    assert problem["status"] == 409
    assert "have changed since the plan" in problem["detail"]


def test_a_start_that_one_broker_refuses_tells_where_it_has_begun(api: Control, group: str) -> None:
    word = post(api, group, "/plan", {})["plan"]
    redriven(api, group, {"selection": {"key": "k5"}})  # which broker-b holds
    problem = api.problem("POST", f"{API}/groups/{group}/redrives", {"order": {}, "plan": word})
    assert (problem["status"], problem["title"]) == (
        409, "The redrive was started on some brokers only",
    )  # fmt: skip
    assert problem["detail"].startswith("broker-a has begun")


@pytest.mark.parametrize(
    ("order", "detail"),
    [
        ({"to": "Missing"}, "there is no topic Missing"),
        ({"rate": -1}, "the rate is -1"),
        ({"selection": {"where": "a ="}}, "the filter expression is wrong"),
        ({"edit": {"body": "a", "bodyBase64": "eA=="}}, "not several"),
        ({"action": "discard", "to": "Orders"}, "takes no target"),
        ({"selection": {"colour": "red"}}, "colour"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(
    api: Control, group: str, order: object, detail: str
) -> None:
    problem = api.problem("POST", f"{API}/groups/{group}/redrives/plan", order)
    assert problem["status"] == 400
    assert detail in problem["detail"]


def test_one_by_its_address_to_another_topic(shared: Consoled, api: Control, group: str) -> None:
    one = letters(api, group, "?key=k2")["messages"][0]
    order = {
        "selection": {"ids": [one["offsetMsgId"]]}, "to": "Fixed",
        "edit": {"body": "new", "properties": {"why": "fixed"}, "removedProperties": ["KEYS"]},
    }  # fmt: skip
    plan = post(api, group, "/plan", order)
    assert (plan["count"], plan["targets"]) == (1, {"Fixed": 1})
    assert "all groups" in plan["warnings"][0]
    redriven(api, group, order)
    message = shared.cluster.stored("Fixed")[-1]
    assert (message.body, message.properties["why"], message.keys) == (b"new", "fixed", ())


def test_a_redrive_is_paused_goes_on_and_is_cancelled(api: Control, group: str) -> None:
    order = {"rate": 0.001}
    plan = post(api, group, "/plan", order)
    post(api, group, "", {"order": order, "plan": plan["plan"]})
    one = f"/{plan['redrive']}"
    for change, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        redrive = post(api, group, f"{one}/{change}")["redrive"]
        assert (redrive["state"], redrive["isActive"]) == (state, change != "cancel")
    assert redrive["endedMs"] >= redrive["createdMs"]
    problem = api.problem("POST", f"{API}/groups/{group}/redrives{one}/pause")
    assert (problem["status"], problem["title"]) == (409, "The redrive was not changed")
    assert "already" in problem["detail"]


def test_results_of_all_brokers_page_by_page_and_as_lines(api: Control, group: str) -> None:
    one = redriven(api, group, {"edit": {"mergePatch": {}}})
    path = f"{API}/groups/{group}/redrives/{one['redrive']}"
    first = api.ok("GET", f"{path}/results?limit=1")
    assert {each["broker"] for each in first["results"]} == {"broker-a"}
    second = api.ok("GET", f"{path}/results?limit=1&cursor={quote(first['next'])}")
    assert {each["broker"] for each in second["results"]} == {"broker-b"}
    assert second["next"] is None
    everything = first["results"] + second["results"]
    assert api.ok("GET", f"{path}/results") == {"results": everything, "next": None}
    assert lines_of(api, f"{path}/download") == everything
    (refused,) = api.ok("GET", f"{path}/results?outcome=refused")["results"]
    assert (refused["outcome"], refused["toOffset"], refused["toQueue"]) == ("refused", None, None)
    assert "no JSON" in refused["reason"]
    sent = [each for each in everything if each["outcome"] == "sent"]
    assert len(sent) == 6
    assert {each["topic"] for each in sent} == {f"%RETRY%{group}"}
    for cursor in ("x", '["broker-z",1]'):
        wrong = f"{path}/results?cursor={quote(cursor)}"
        assert api.problem("GET", wrong)["status"] == 400


def lines_of(api: Control, path: str) -> list[Any]:
    connection = http.client.HTTPConnection(api.address)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert (answer.status, answer.headers.get_content_type()) == (200, "application/jsonl")
        return [json.loads(line) for line in answer.read().splitlines()]
    finally:
        connection.close()


# -- who may do what ----------------------------------------------------------------------------


def test_a_read_only_console_plans_and_changes_nothing(shared: Consoled, group: str) -> None:
    with console(shared.cluster, read_only=True) as running:
        api = running.api
        plan = post(api, group, "/plan", {})
        path = f"{API}/groups/{group}/redrives"
        for target, body in (
            (path, {"order": {}, "plan": plan["plan"]}),
            *((f"{path}/r1/{change}", None) for change in ("pause", "resume", "cancel")),
        ):
            assert api.problem("POST", target, body)["title"] == "This console is read-only"
        assert api.ok("GET", path)["redrives"] == []


def test_bodies_stay_hidden_in_plans_and_letters(shared: Consoled, group: str) -> None:
    with console(shared.cluster, no_bodies=True) as running:
        api = running.api
        plan = post(api, group, "/plan", {"edit": {"mergePatch": {"a": 1}}})
        assert {(each["before"], each["after"]) for each in plan["samples"]} == {(None, None)}
        assert all(each["propertiesBefore"] for each in plan["samples"])
        one = letters(api, group, "?key=k1")["messages"][0]
        assert (one["body"], one["lastError"]) == (
            None,
            "KeyError: order 471 has no known currency",
        )
        for query in ("?contains=order", "/errors?contains=order", "?where=body.order%20%3D%201"):
            problem = api.problem("GET", f"{API}/groups/{group}/dead-letters{query}")
            assert problem["status"] == 403


def test_without_a_broker_the_others_redrive_theirs(shared: Consoled) -> None:
    with consoled(brokers=2, topics={"Orders": 1}) as running:
        running.cluster.create_group("g")
        for broker in ("broker-a", "broker-b"):
            give_up(running, "g", b"x", broker=broker)
        api = running.api
        assert post(api, "g", "/plan", {})["count"] == 2
        with running.cluster.faults.kill("broker-b"):
            plan = post(api, "g", "/plan", {})
            assert (plan["count"], [each["broker"] for each in plan["silent"]]) == (1, ["broker-b"])
            for path in ("/dead-letters", "/groups/g/dead-letters", "/groups/g/redrives"):
                silent = api.ok("GET", API + path)["silent"]
                assert [each["broker"] for each in silent] == ["broker-b"], path
            redriven(api, "g", {})
        assert len(running.cluster.stored("%RETRY%g")) == 1
