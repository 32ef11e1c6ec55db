"""The console's API: clusters, topics, messages and groups over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from openapi_spec_validator import validate
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control

from pocketmq.client import Message, ReceivedMessage
from pocketmq.protocol.errors import ConfigError

BODIES = [f"body {number}" for number in range(20)]


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2, "Empty": 1}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for number, body in enumerate(BODIES):
                producer.send(
                    Message(
                        "Orders", body.encode(), tags="odd" if number % 2 else "even",
                        keys=[f"k{number}"],
                    )
                )  # fmt: skip
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


def browse(api: Control, topic: str = "Orders", **query: Any) -> Any:
    text = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return api.ok("GET", f"{API}/topics/{topic}/messages?{text}")


def bodies(found: Any) -> list[str]:
    return [message["body"] for message in found["messages"]]


def test_the_document_describes_every_operation(shared: Consoled, api: Control) -> None:
    document = api.ok("GET", f"{API}/openapi.json")
    validate(document)
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert described == {(one.method, one.path) for one in shared.server.operations}
    assert all(path.startswith(f"{API}/") for _, path in described)


def test_the_guide_names_every_operation(shared: Consoled) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "api.md").read_text("utf-8")
    named = set(re.findall(r"`((?:GET|PUT|POST|DELETE) /[^` ]*)`", guide))
    described = {f"{one.method} {one.path}" for one in shared.server.operations}
    assert named - {f"GET {API}/openapi.json"} == described


# -- the cluster ----------------------------------------------------------------------------------


def test_a_broker_that_is_down_does_not_hide_the_others(shared: Consoled, api: Control) -> None:
    rows = api.ok("GET", f"{API}/cluster")["brokers"]
    assert [(row["name"], row["id"], row["problem"]) for row in rows] == [
        ("broker-a", 0, None), ("broker-b", 0, None),
    ]  # fmt: skip
    assert sum(row["storedToday"] for row in rows) >= len(BODIES)
    address = shared.cluster.brokers["broker-b"]
    with shared.cluster.faults.kill("broker-b"):
        rows = api.ok("GET", f"{API}/cluster")["brokers"]
        problems = {row["name"]: row["problem"] for row in rows}
        assert problems.pop("broker-a") is None
        assert all(address in problem for problem in problems.values())


def test_settings_of_a_broker(api: Control) -> None:
    shown = api.ok("GET", f"{API}/brokers/broker-a/settings")
    assert shown["settings"]["brokerName"] == "broker-a"
    assert api.problem("GET", f"{API}/brokers/nobody/settings")["status"] == 404


# -- topics ---------------------------------------------------------------------------------------


def test_topics_by_name_and_kind(api: Control) -> None:
    shown = api.ok("GET", f"{API}/topics")
    assert [topic["name"] for topic in shown["topics"]] == ["Empty", "Orders"]
    assert (shown["total"], shown["next"]) == (2, None)
    assert api.ok("GET", f"{API}/topics?contains=ORD")["total"] == 1
    part = api.ok("GET", f"{API}/topics?limit=1")
    assert (part["total"], part["next"]) == (2, "Empty")
    rest = api.ok("GET", f"{API}/topics?limit=1&after={part['next']}")
    assert ([topic["name"] for topic in rest["topics"]], rest["next"]) == (["Orders"], None)
    everything = api.ok("GET", f"{API}/topics?kind=all")["topics"]
    assert {"retry", "system", "normal"} <= {topic["kind"] for topic in everything}


def test_a_topic_with_its_queues(api: Control) -> None:
    shown = api.ok("GET", f"{API}/topics/Orders")
    assert (shown["kind"], shown["messages"]) == ("normal", len(BODIES))
    assert set(shown["settings"]) == {"broker-a", "broker-b"}
    assert [(queue["broker"], queue["queue"]) for queue in shown["queues"]] == [
        ("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1),
    ]  # fmt: skip
    assert sum(queue["maxOffset"] - queue["minOffset"] for queue in shown["queues"]) == len(BODIES)
    (empty, *_) = api.ok("GET", f"{API}/topics/Empty")["queues"]
    assert empty["lastStoredMs"] is None
    assert api.problem("GET", f"{API}/topics/Nobody")["status"] == 404


def test_a_topic_is_created_and_deleted(api: Control) -> None:
    made = api.ok("POST", f"{API}/topics/Made", {"attributes": {"message.type": "FIFO"}})
    assert made["settings"]["broker-a"]["writeQueues"] == 8
    assert made["settings"]["broker-b"]["attributes"] == {"message.type": "FIFO"}
    assert api.problem("POST", f"{API}/topics/Made", {})["status"] == 409
    assert api.ok("DELETE", f"{API}/topics/Made") == {"deleted": "Made", "messages": 0}
    assert api.problem("GET", f"{API}/topics/Made")["status"] == 404
    assert api.problem("DELETE", f"{API}/topics/TBW102")["status"] == 403


# -- messages -------------------------------------------------------------------------------------


def test_a_look_tells_how_far_it_went(api: Control) -> None:
    found = browse(api, start="earliest")
    assert (sorted(bodies(found)), found["scanned"]) == (sorted(BODIES), 20)
    assert (found["stopped"], found["next"]) == ("end", None)
    times = [message["storeTimestamp"] for message in found["messages"]]
    assert times == sorted(times)
    assert all(queue["left"] == 0 for queue in found["queues"])
    nothing = browse(api, "Empty", start="earliest")
    assert (nothing["messages"], nothing["scanned"], nothing["stopped"]) == ([], 0, "end")


@pytest.mark.parametrize(("bound", "stopped"), [({"limit": 3}, "limit"), ({"scan": 3}, "scan")])
def test_a_look_goes_on_where_it_has_stopped(
    api: Control, bound: dict[str, Any], stopped: str
) -> None:
    found = browse(api, start="earliest", **bound)
    assert (found["scanned"], found["stopped"]) == (3, stopped)
    assert sum(queue["left"] for queue in found["queues"]) == 17
    seen = bodies(found)
    while found["next"] is not None:
        found = browse(api, cursor=found["next"], **bound)
        seen += bodies(found)
    assert sorted(seen) == sorted(BODIES)


def test_a_look_that_takes_too_long_says_so(api: Control) -> None:
    found = browse(api, start="earliest", seconds=1e-9)
    assert (found["scanned"], found["stopped"]) == (0, "time")
    assert found["next"] is not None


def test_large_bodies_end_a_look(api: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.console.api.finding.browsing.FOUND_SIZE_MAX", 20)
    found = browse(api, start="earliest")
    assert (found["stopped"], found["scanned"]) == ("size", 4)
    seen = len(found["messages"])
    while found["next"] is not None:
        found = browse(api, cursor=found["next"])
        seen += len(found["messages"])
    assert seen == len(BODIES)


def test_what_is_looked_for(api: Control) -> None:
    assert bodies(browse(api, start="earliest", key="k7")) == ["body 7"]
    assert len(bodies(browse(api, start="earliest", tag="odd"))) == 10
    assert bodies(browse(api, start="earliest", contains="dy 19")) == ["body 19"]
    where = browse(api, start="earliest", where="TAGS = 'even' AND KEYS = 'k4'")
    assert bodies(where) == ["body 4"]
    latest = browse(api, limit=3)
    times = [each["storeTimestamp"] for each in latest["messages"]]
    assert times == sorted(times, reverse=True)
    assert len(times) == 3
    assert latest["messages"][0]["body"] in BODIES[-4:]
    assert latest["scanned"] == 12  # the last three of each queue
    (message,) = browse(api, start="earliest", key="k7")["messages"]
    queue = f"{message['broker']}:{message['queue']}"
    after = browse(api, queue=queue, start=message["offset"])
    assert after["messages"][0]["msgId"] == message["msgId"]
    later = browse(api, queue=queue, start=f"@{message['storeTimestamp']}")
    assert message["msgId"] in [each["msgId"] for each in later["messages"]]


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("start=now", "start is 'now': write earliest, latest, @"),
        ("start=5", "an offset beside a queue"),
        ("queue=broker-a", "is no queue: write the broker and the number"),
        ("queue=broker-a:9", "Orders has no queue broker-a:9"),
        ("where=x+%3D%3D+1", "the filter expression is wrong at character 4"),
        ("cursor=x", "the cursor is not of an answer of this API"),
        ("limit=501", "`$.limit`"),
        ("colour=red", "unknown field `colour`"),
    ],
)
def test_a_query_that_does_not_fit(api: Control, query: str, told: str) -> None:
    problem = api.problem("GET", f"{API}/topics/Orders/messages?{query}")
    assert problem["status"] == 400
    assert told in problem["detail"]


def test_one_message_by_either_id(shared: Consoled, api: Control) -> None:
    (message,) = browse(api, start="earliest", key="k3")["messages"]
    shown = api.ok("GET", f"{API}/topics/Orders/messages/{message['msgId']}")
    assert (shown["body"], shown["keys"]) == ("body 3", ["k3"])
    problem = api.problem("GET", f"{API}/topics/Orders/messages/C0A8000100002A9F")
    assert problem["status"] == 404
    assert api.problem("GET", f"{API}/topics/Nobody/messages/x")["status"] == 404


def test_why_a_message_is_not_consumed(api: Control) -> None:
    (message,) = browse(api, start="earliest", key="k9")["messages"]
    path = f"{API}/topics/Orders/messages/{message['msgId']}/explanation"
    told = api.ok("GET", f"{path}?group=billing")
    assert (told["group"], told["message"]) == ("billing", message["msgId"])
    assert told["verdict"]
    assert told["facts"]["offset"] == message["offset"]
    place = f"{message['broker']}:{message['queue']}:{message['offset']}"
    there = api.ok("GET", f"{API}/topics/Orders/messages/{place}/explanation?group=billing")
    assert there["state"] == told["state"]
    for wrong in (
        f"{path}?group=nobody",
        f"{path.replace('Orders', 'Nobody')}?group=billing",
        f"{path.replace(message['msgId'], 'none')}?group=billing",
    ):
        assert api.problem("GET", wrong)["status"] == 404
    assert api.problem("GET", path)["status"] == 400


def test_messages_are_sent_as_they_were_shown(shared: Consoled, api: Control) -> None:
    (message,) = browse(api, start="earliest", key="k5")["messages"]
    sent = api.ok("POST", f"{API}/topics/Empty/messages", {"messages": [message | {
        "body": "again", "broker": "broker-b", "queue": 0,
    }]})  # fmt: skip
    (one,) = sent["messages"]
    assert (one["status"], one["broker"], one["queue"]) == ("SEND_OK", "broker-b", 0)
    (copy,) = browse(api, "Empty", start="earliest")["messages"]
    assert (copy["body"], copy["keys"], copy["tags"]) == ("again", ["k5"], "odd")
    delayed = api.ok("POST", f"{API}/topics/Empty/messages", {
        "messages": [{"body": "later", "delayMs": 3_600_000}],
    })  # fmt: skip
    assert delayed["messages"][0]["recallHandle"]
    wrong = {"messages": [{"body": "x", "queue": 1}]}
    assert api.problem("POST", f"{API}/topics/Empty/messages", wrong)["status"] == 400


# -- groups ---------------------------------------------------------------------------------------


def test_a_group_with_its_members_and_lag(shared: Consoled, api: Control) -> None:
    assert api.ok("GET", f"{API}/groups")["groups"] == ["billing"]
    assert "TOOLS_CONSUMER" in api.ok("GET", f"{API}/groups?builtIn=true")["groups"]
    shown = api.ok("GET", f"{API}/groups/billing")
    assert (shown["members"], shown["left"], shown["mayConsume"]) == ([], 0, True)
    cluster = shared.cluster
    seen: list[bytes] = []

    def note(messages: Sequence[ReceivedMessage]) -> None:
        seen.extend(message.body for message in messages)

    with cluster.push_consumer("billing", listener=note) as consumer:
        consumer.subscribe("Orders")
        cluster.drain("billing")
        shown = api.ok("GET", f"{API}/groups/billing")
        (member,) = shown["members"]
        assert member["language"] in ("JAVA", "PYTHON", "OTHER")
        assert shown["subscriptions"] == [{"topic": "Orders", "expression": "*", "type": "TAG"}]
        assert shown["conflicts"] == []
    assert sorted(seen) == sorted(body.encode() for body in BODIES)
    assert api.problem("GET", f"{API}/groups/nobody")["status"] == 404
    assert api.ok("GET", f"{API}/topics/Orders")["groups"] == ["billing"]


def test_offsets_are_reset_after_a_preview(shared: Consoled, api: Control) -> None:
    path = f"{API}/groups/billing/offsets"
    preview = api.ok("POST", path, {"topic": "Orders", "to": "earliest", "preview": True})
    assert not preview["isDone"]
    before = {(row["broker"], row["queue"]): row["before"] for row in preview["queues"]}
    again = api.ok("POST", path, {"topic": "Orders", "to": "earliest", "preview": True})
    assert again == preview
    done = api.ok("POST", path, {"topic": "Orders", "to": "latest"})
    assert done["isDone"]
    back = api.ok("POST", path, {"topic": "Orders", "offset": 1, "queue": "broker-a:1"})
    (row,) = back["queues"]
    assert (row["after"], row["messages"]) == (1, row["before"] - 1)
    left = {
        (queue["broker"], queue["queue"]): queue["left"]
        for queue in api.ok("GET", f"{API}/groups/billing")["queues"]
        if queue["topic"] == "Orders"
    }
    assert left["broker-a", 1] == row["messages"]
    assert set(before) == {(b, q) for b in ("broker-a", "broker-b") for q in (0, 1)}
    for wrong in ({"topic": "Orders"}, {"topic": "Orders", "to": "latest", "offset": 1}):
        assert api.problem("POST", path, wrong)["status"] == 400
    assert api.problem("POST", path, {"topic": "Nobody", "to": "latest"})["status"] == 404


def test_dead_letters_of_a_group(shared: Consoled, api: Control) -> None:
    path = f"{API}/groups/billing/dead-letters"
    assert api.ok("GET", path)["messages"] == []
    with shared.cluster.producer() as producer:
        producer.send(Message("%DLQ%billing", b"given up"))
    assert bodies(api.ok("GET", path)) == ["given up"]
    assert api.ok("GET", f"{API}/groups/billing")["deadLetters"] == 1


# -- who may see what -----------------------------------------------------------------------------


def test_a_read_only_console_changes_nothing(shared: Consoled) -> None:
    with console(shared.cluster, read_only=True) as running:
        api = running.api
        for method, path, body in (
            ("POST", "/topics/New", {}),
            ("DELETE", "/topics/Orders", None),
            ("POST", "/topics/Orders/messages", {"messages": [{"body": "x"}]}),
            ("POST", "/groups/billing/offsets", {"topic": "Orders", "to": "latest"}),
        ):
            problem = api.problem(method, API + path, body)
            assert (problem["status"], problem["title"]) == (403, "This console is read-only")
        preview = {"topic": "Orders", "to": "latest", "preview": True}
        assert not api.ok("POST", f"{API}/groups/billing/offsets", preview)["isDone"]
        assert len(bodies(browse(api, start="earliest"))) == len(BODIES)


def test_bodies_stay_hidden_where_they_shall(shared: Consoled) -> None:
    with console(shared.cluster, no_bodies=True) as running:
        found = browse(running.api, start="earliest", key="k7")["messages"]
        assert [(each["body"], each["bodyBase64"], each["keys"]) for each in found] == [
            (None, None, ["k7"])
        ]
        path = f"{API}/topics/Orders/messages"
        shown = running.api.ok("GET", f"{path}/{found[0]['msgId']}")
        assert shown["body"] is None
        assert running.api.problem("GET", f"{path}?contains=body")["status"] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Host": "evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_pages_of_other_sites_are_refused(api: Control, headers: dict[str, str]) -> None:
    assert api.problem("GET", f"{API}/cluster", headers=headers)["status"] == 403


def test_a_port_that_is_taken(shared: Consoled) -> None:
    port = int(shared.server.address.rpartition(":")[2])
    taken = console(shared.cluster, port=port)
    with pytest.raises(ConfigError, match="the console cannot listen") as refused:
        taken.__enter__()
    assert "choose another port, or 0" in str(refused.value)
