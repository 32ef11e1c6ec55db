"""What the console's API changes: topics, groups, offsets and their undo, files of messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control

from pocketmq.client import Message, MessageQueue
from pocketmq.console.api.changes.line_calls import FAILURES_MAX


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2, "Lines": 1}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for broker in ("broker-a", "broker-b"):
                for queue in (0, 1):
                    for number in range(10):
                        producer.send(
                            Message("Orders", b"x", keys=[f"{broker}-{queue}-{number}"]),
                            queue=MessageQueue("Orders", broker, queue),
                        )
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


OFFSETS = f"{API}/groups/billing/offsets"


def reset(api: Control, **given: Any) -> Any:
    return api.ok("POST", OFFSETS, {"topic": "Orders", **given})


def stands(api: Control) -> dict[str, int]:
    return {
        f"{queue['broker']}:{queue['queue']}": queue["committed"]
        for queue in api.ok("GET", f"{API}/groups/billing")["queues"]
        if queue["topic"] == "Orders"
    }


def after(done: Any) -> list[int]:
    return [queue["after"] for queue in done["queues"]]


# -- offsets --------------------------------------------------------------------------------------


def test_a_preview_tells_how_many_how_old_and_which(api: Control) -> None:
    reset(api, to="earliest")
    preview = reset(api, to="latest", preview=True, sample=8)
    assert (preview["isDone"], preview["again"], preview["skipped"]) == (False, 0, 40)
    assert preview["change"] is None
    sample = preview["sample"]
    assert (sample["queues"], sample["problem"]) == (4, None)
    assert [message["keys"] for message in sample["messages"]] == [
        [f"broker-{broker}-{queue}-{number}"]
        for broker in "ab" for queue in (0, 1) for number in (0, 1)
    ]  # fmt: skip
    assert not any(message["comesAgain"] for message in sample["messages"])
    assert sample["oldestMs"] <= sample["newestMs"]
    assert set(stands(api).values()) == {0}
    reset(api, to="latest")
    back = reset(api, shift=-3, queue="broker-b:1", preview=True, sample=8)
    assert (back["again"], back["skipped"]) == (3, 0)
    shown = back["sample"]["messages"]
    assert [(message["offset"], message["comesAgain"]) for message in shown] == [
        (7, True), (8, True), (9, True),
    ]  # fmt: skip
    assert reset(api, to="latest", preview=True, sample=5)["sample"] == {
        "messages": [], "oldestMs": None, "newestMs": None, "queues": 0, "problem": None,
    }  # fmt: skip


def test_offsets_are_shifted_within_the_queues(api: Control) -> None:
    reset(api, to="earliest")
    assert after(reset(api, shift=4)) == [4, 4, 4, 4]
    assert after(reset(api, shift=-1)) == [3, 3, 3, 3]
    assert after(reset(api, shift=100)) == [10, 10, 10, 10]
    assert after(reset(api, shift=-100)) == [0, 0, 0, 0]


def test_offsets_of_some_queues(api: Control) -> None:
    reset(api, to="earliest")
    wanted = [{"queue": "broker-a:1", "offset": 7}, {"queue": "broker-b:0", "offset": 2}]
    done = reset(api, offsets=wanted)
    assert (after(done), done["again"], done["skipped"]) == ([7, 2], 0, 9)
    assert stands(api) == {"broker-a:0": 0, "broker-a:1": 7, "broker-b:0": 2, "broker-b:1": 0}
    for offset, told in (("broker-a:1", "twice"), ("broker-a:9", "no queue of topic Orders")):
        body = {"topic": "Orders", "offsets": [*wanted, {"queue": offset, "offset": 1}]}
        assert told in api.problem("POST", OFFSETS, body)["detail"]
    body = {"topic": "Orders", "offsets": [{"queue": "broker-a:0", "offset": 11}]}
    assert "offset 11 is outside" in api.problem("POST", OFFSETS, body)["detail"]


def test_a_group_that_has_moved_stays(api: Control) -> None:
    reset(api, to="earliest")
    preview = reset(api, to="latest", preview=True)
    expected = [
        {"queue": f"{queue['broker']}:{queue['queue']}", "offset": queue["before"]}
        for queue in preview["queues"]
    ]
    reset(api, shift=1, queue="broker-a:0")
    body = {"topic": "Orders", "to": "latest", "expected": expected}
    problem = api.problem("POST", OFFSETS, body)
    assert (problem["status"], problem["title"]) == (409, "The group has moved")
    assert "billing has moved in broker-a:0 from 0 to 1" in problem["detail"]
    assert stands(api)["broker-b:1"] == 0
    expected[0]["offset"] = 1
    assert after(api.ok("POST", OFFSETS, body)) == [10, 10, 10, 10]


def test_a_change_is_undone(api: Control) -> None:
    reset(api, to="earliest")
    reset(api, offsets=[{"queue": "broker-a:1", "offset": 6}])
    stood = stands(api)
    change = reset(api, to="latest")["change"]
    listed = api.ok("GET", f"{OFFSETS}/changes")["changes"]
    assert (listed[0]["change"], listed[0]["topic"]) == (change, "Orders")
    assert {queue["after"] for queue in listed[0]["queues"]} == {10}
    preview = reset(api, undo=change, preview=True)
    assert after(preview) == list(stood.values())
    undone = reset(api, undo=change)
    assert stands(api) == stood
    assert undone["change"] not in (None, change)
    assert reset(api, undo=change)["change"] is None  # nothing has changed
    for wrong in ({"undo": "none"}, {"undo": change, "topic": "Lines"}):
        assert api.problem("POST", OFFSETS, {"topic": "Orders", **wrong})["status"] == 404
    assert api.problem("GET", f"{API}/groups/nobody/offsets/changes")["status"] == 404


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"to": "latest", "shift": 1},
        {"undo": "x", "queue": "broker-a:0"},
        {"offsets": []},
        {"shift": 1, "sample": 1000},
        {"offsets": [{"queue": "broker-a:0", "offset": -1}]},
    ],
)
def test_a_reset_that_does_not_fit(api: Control, wrong: dict[str, Any]) -> None:
    assert api.problem("POST", OFFSETS, {"topic": "Orders", **wrong})["status"] == 400


# -- topics and groups ----------------------------------------------------------------------------


def test_a_topic_is_changed_everywhere_or_on_one_broker(api: Control) -> None:
    path = f"{API}/topics/Changed"
    made = api.ok("POST", path, {"readQueues": 4, "writeQueues": 2, "isWritable": False})
    assert {
        (each["readQueues"], each["writeQueues"], each["isReadable"], each["isWritable"])
        for each in made["settings"].values()
    } == {(4, 2, True, False)}
    changed = api.ok("PUT", path, {"isWritable": True, "broker": "broker-b"})["settings"]
    assert not changed["broker-a"]["isWritable"]
    assert changed["broker-b"]["isWritable"]
    changed = api.ok("PUT", path, {"writeQueues": 3, "isReadable": False})["settings"]
    assert [
        (each["readQueues"], each["writeQueues"], each["isReadable"], each["isWritable"])
        for each in changed.values()
    ] == [(4, 3, False, False), (4, 3, False, True)]
    assert api.problem("PUT", path, {"broker": "broker-c"})["status"] == 400
    assert api.problem("PUT", f"{API}/topics/Nobody", {})["status"] == 404
    assert api.problem("PUT", f"{API}/topics/TBW102", {"order": True})["status"] == 403
    assert api.problem("PUT", path, {"readQueues": 0})["status"] == 400
    api.ok("DELETE", path)


def test_what_would_go_with_a_topic(api: Control) -> None:
    reset(api, to="earliest")
    reset(api, shift=2, queue="broker-a:0")
    told = api.ok("GET", f"{API}/topics/Orders/deletion")
    assert (told["topic"], told["messages"]) == ("Orders", 40)
    assert told["groups"] == [{"group": "billing", "members": 0, "left": 38}]
    assert told["newestMs"] > 0
    assert api.problem("GET", f"{API}/topics/Nobody/deletion")["status"] == 404


def test_a_group_is_created_changed_and_deleted(shared: Consoled, api: Control) -> None:
    path = f"{API}/groups/made"
    made = api.ok("POST", path, {"retryMaxTimes": 3, "isOrderly": True})
    assert set(made["brokers"]) == {"broker-a", "broker-b"}
    assert made["brokers"]["broker-a"] == {
        "mayConsume": True, "mayBroadcast": True, "isOrderly": True, "retryMaxTimes": 3,
        "retryQueues": 1,
    }  # fmt: skip
    assert api.problem("POST", path, {})["status"] == 409
    changed = api.ok("PUT", path, {"mayConsume": False})
    assert api.ok("GET", f"{path}/settings") == changed
    assert {each["mayConsume"] for each in changed["brokers"].values()} == {False}
    assert changed["brokers"]["broker-b"]["retryMaxTimes"] == 3
    with shared.cluster.producer() as producer:
        producer.send(Message("%DLQ%made", b"given up"))
    told = api.ok("GET", f"{path}/deletion")
    assert (told["group"], told["members"], told["deadLetters"]) == ("made", [], 1)
    assert api.ok("DELETE", path) == {"deleted": "made", "deadLetters": 1}
    for method, part in (("GET", "/settings"), ("GET", "/deletion"), ("PUT", ""), ("DELETE", "")):
        body: dict[str, Any] | None = {} if method == "PUT" else None
        assert api.problem(method, path + part, body)["status"] == 404
    assert api.problem("DELETE", f"{API}/groups/TOOLS_CONSUMER")["status"] == 403


def test_connected_members_are_told_before_a_deletion(shared: Consoled, api: Control) -> None:
    with shared.cluster.push_consumer("billing", listener=lambda _: None) as consumer:
        consumer.subscribe("Orders")
        shared.cluster.drain("billing")
        (member,) = api.ok("GET", f"{API}/groups/billing/deletion")["members"]
        assert member in {
            each["clientId"] for each in api.ok("GET", f"{API}/groups/billing")["members"]
        }
        (group,) = api.ok("GET", f"{API}/topics/Orders/deletion")["groups"]
        assert group == {"group": "billing", "members": 1, "left": 0}


# -- files of messages ----------------------------------------------------------------------------


def send(api: Control, *lines: str, topic: str = "Lines", **given: Any) -> Any:
    body = {"lines": "\n".join(lines), **given}
    return api.ok("POST", f"{API}/topics/{topic}/messages/lines", body)


def line(body: str, **given: Any) -> str:
    return json.dumps({"body": body, **given})


def test_a_file_is_sent_line_by_line(api: Control) -> None:
    sent = send(api, line("one", keys=["k1"], tags="t"), "", line("two", properties={"a": "b"}))
    assert (sent["sent"], sent["failed"], sent["isRefused"]) == (2, 0, False)
    assert [each["line"] for each in sent["lines"]] == [1, 3]
    for each, body in zip(sent["lines"], ("one", "two"), strict=True):
        found = api.ok("GET", f"{API}/topics/Lines/messages/{each['sent']['msgId']}")
        message = found.get("message", found)
        assert message["offset"] == each["sent"]["offset"]
        assert body in json.dumps(found)


def test_nothing_of_a_file_is_sent_if_a_line_does_not_fit(api: Control) -> None:
    before = api.ok("GET", f"{API}/topics/Lines")["messages"]
    sent = send(api, line("fits"), "{", '{"text": "x"}', line(""))
    assert (sent["sent"], sent["failed"], sent["isRefused"]) == (0, 3, True)
    problems = [each["problem"] for each in sent["lines"]]
    assert problems[0] is None
    assert "no JSON" in problems[1]
    assert "unknown field 'text'" in problems[2]
    assert "empty" in problems[3]
    assert send(api, line("fits"), checkOnly=True)["sent"] == 0
    assert api.ok("GET", f"{API}/topics/Lines")["messages"] == before
    path = f"{API}/topics/Lines/messages/lines"
    assert api.problem("POST", path, {"lines": "\n\n"})["status"] == 400


def test_lines_that_cannot_be_sent_say_why_and_end_the_file(api: Control) -> None:
    api.ok("POST", f"{API}/topics/Closed", {"isWritable": False})
    sent = send(api, *[line("x")] * (FAILURES_MAX + 2), topic="Closed")
    assert (sent["sent"], sent["failed"], sent["isRefused"]) == (0, FAILURES_MAX + 2, False)
    problems = [each["problem"] for each in sent["lines"]]
    assert all("not tried" not in problem for problem in problems[:FAILURES_MAX])
    assert all("not tried" in problem for problem in problems[FAILURES_MAX:])
    api.ok("DELETE", f"{API}/topics/Closed")


def test_a_read_only_console_changes_nothing(shared: Consoled) -> None:
    with console(shared.cluster, read_only=True) as running:
        for method, path, body in (
            ("PUT", "/topics/Orders", {"order": True}),
            ("DELETE", "/topics/Orders", None),
            ("POST", "/groups/new", {}),
            ("PUT", "/groups/billing", {}),
            ("DELETE", "/groups/billing", None),
            ("POST", "/groups/billing/offsets", {"topic": "Orders", "shift": 1}),
            ("POST", "/topics/Lines/messages/lines", {"lines": line("x")}),
        ):
            problem = running.api.problem(method, API + path, body)
            assert (problem["status"], problem["title"]) == (403, "This console is read-only")
