"""The control API of a cluster: what it shows and does, and whom it refuses."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openapi_spec_validator import validate
from support.brokers.control_parts import Control, Controlled, controlled

from pocketmq.client import ConsumeResult, LocalTransactionState, Message, MessageQueue
from pocketmq.console.web.gate import BODY_MAX
from pocketmq.protocol.errors import ConfigError, PocketMQError
from pocketmq.protocol.messages.message_json import message_line
from pocketmq.testing.control.server import ControlServer


@pytest.fixture(scope="module")
def shared() -> Iterator[Controlled]:
    with controlled(brokers=2, topics={"Kept": 1}, groups=["kept"]) as running:
        yield running


@pytest.fixture
def api(shared: Controlled) -> Iterator[Control]:
    yield shared.control
    shared.control.ok("POST", "/reset")


def publish(api: Control, topic: str, *bodies: str, **fields: Any) -> Any:
    messages = [{"body": body, **fields} for body in bodies]
    return api.ok("POST", f"/topics/{topic}/messages", {"messages": messages})["messages"]


def bodies(api: Control, path: str) -> list[str]:
    return [message["body"] for message in api.ok("GET", path)["messages"]]


# -- the cluster ----------------------------------------------------------------------------------


def test_the_document_describes_every_operation(shared: Controlled, api: Control) -> None:
    document = api.ok("GET", "/openapi.json")
    validate(document)
    described = {
        (method.upper(), path) for path, item in document["paths"].items() for method in item
    }
    assert described == {(one.method, one.path) for one in shared.server.operations}
    names = [one["operationId"] for item in document["paths"].values() for one in item.values()]
    assert len(set(names)) == len(names)
    fault = document["paths"]["/faults"]["post"]["requestBody"]["content"]["application/json"]
    assert len(fault["schema"]["anyOf"]) == 12
    assert fault["schema"]["discriminator"]["propertyName"] == "kind"


def test_the_guide_names_every_operation(shared: Controlled) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "testing.md").read_text("utf-8")
    named = set(re.findall(r"`((?:GET|PUT|POST|DELETE) /[^` ]*)`", guide))
    assert named == {f"{one.method} {one.path}" for one in shared.server.operations}


def test_health_tells_addresses_and_what_is_not_right(shared: Controlled, api: Control) -> None:
    health = api.ok("GET", "/health")
    assert (health["status"], health["faults"]) == ("up", 0)
    assert health["namesrv"] == shared.cluster.namesrv
    assert {b["name"]: b["address"] for b in health["brokers"]} == shared.cluster.brokers
    api.ok("POST", "/faults", {"kind": "kill", "broker": "broker-b"})
    pause = api.ok("POST", "/faults", {"kind": "pause", "broker": "broker-a"})
    health = api.ok("GET", "/health")
    assert (health["status"], health["faults"]) == ("degraded", 2)
    assert [b["state"] for b in health["brokers"]] == ["paused", "killed"]
    api.ok("DELETE", f"/faults/{pause['id']}")


def test_a_reset_leaves_what_the_cluster_was_started_with(shared: Controlled, api: Control) -> None:
    before = api.ok("GET", "/health")["brokers"]
    publish(api, "Kept", "x")
    publish(api, "Made", "y", delayMs=3_600_000)
    api.ok("PUT", "/groups/made")
    api.ok("POST", "/faults", {"kind": "drop_reply", "topic": "Nobody"})
    done = api.ok("POST", "/reset")
    assert "never fired" in done["warnings"][0]
    assert [(t["name"], t["messages"]) for t in api.ok("GET", "/topics")["topics"]] == [("Kept", 0)]
    assert [g["name"] for g in api.ok("GET", "/groups")["groups"]] == ["kept"]
    health = api.ok("GET", "/health")
    assert health["brokers"] == before
    assert (health["faults"], health["clock"]["waiting"]) == (0, 0)
    publish(api, "Kept", "after")
    assert bodies(api, "/topics/Kept/messages") == ["after"]


def test_clients_are_told_another_address(shared: Controlled, api: Control) -> None:
    rules = {"rules": [{"addr": "broker.example:1234", "callers": ["127.0.0.0/8"]}]}
    api.ok("PUT", "/brokers/broker-a/advertised", rules)
    with shared.cluster.admin() as admin:
        route = admin.topic_route("Kept")
        assert {d.broker_name: d.broker_addrs[0] for d in route.broker_datas} == {
            "broker-a": "broker.example:1234",
            "broker-b": shared.cluster.brokers["broker-b"],
        }
        api.ok("PUT", "/brokers/broker-a/advertised", {"rules": []})
        route = admin.topic_route("Kept")
        assert {d.broker_addrs[0] for d in route.broker_datas} == set(
            shared.cluster.brokers.values()
        )
    wrong = {"rules": [{"addr": "nowhere"}]}
    assert "advertise" in api.problem("PUT", "/brokers/broker-a/advertised", wrong)["detail"]
    assert api.problem("PUT", "/brokers/broker-z/advertised", rules)["status"] == 404


def test_it_can_be_stopped(shared: Controlled, api: Control) -> None:
    answer = api.ask("POST", "/shutdown")
    assert answer.status == 202
    shared.cluster.thread.call(lambda: None)
    assert shared.stops.pop() is True


# -- topics and messages --------------------------------------------------------------------------


def test_topics_are_made_changed_and_deleted(shared: Controlled, api: Control) -> None:
    made = api.ok("PUT", "/topics/Orders", {"queues": 3, "settings": {"order": True}})
    assert made == {
        "name": "Orders", "queues": 3, "brokers": ["broker-a", "broker-b"], "messages": 0,
    }  # fmt: skip
    with shared.cluster.admin() as admin:
        config = admin.topic_config("Orders", shared.cluster.brokers["broker-a"])
    assert (config.read_queue_nums, config.order) == (3, True)
    assert api.ok("PUT", "/topics/Orders", {"queues": 5})["queues"] == 5
    assert api.ok("GET", "/topics/Orders")["queues"] == 5
    assert [t["name"] for t in api.ok("GET", "/topics")["topics"]] == ["Kept", "Orders"]
    api.ok("DELETE", "/topics/Orders")
    assert api.problem("GET", "/topics/Orders")["remedy"] == "see GET /topics"
    assert api.problem("DELETE", "/topics/Orders")["status"] == 404
    assert api.problem("DELETE", "/topics/SCHEDULE_TOPIC_XXXX")["status"] == 403
    assert "own" in api.problem("PUT", "/topics/TBW102", {"queues": 1})["detail"]


def test_an_emptied_topic_begins_anew(api: Control) -> None:
    api.ok("PUT", "/topics/Orders", {"queues": 1, "settings": {"order": True}})
    publish(api, "Orders", "a", "b")
    done = api.ok("POST", "/topics/Orders/empty")
    assert (done["done"], done["warnings"]) == ("topic Orders is empty; it held 2 messages", [])
    assert api.ok("GET", "/topics/Orders")["messages"] == 0
    sent = publish(api, "Orders", "c", broker="broker-a", queue=0)
    assert sent[0]["offset"] == 0


def test_messages_are_published_and_shown_as_they_are(shared: Controlled, api: Control) -> None:
    api.ok("PUT", "/topics/Orders", {"queues": 1})
    blob = bytes(range(256))
    messages = [
        {"body": "größe", "tags": "new", "keys": ["k1", "k2"], "properties": {"a": "b"},
         "broker": "broker-b", "queue": 0},
        {"bodyBase64": base64.b64encode(blob).decode(), "broker": "broker-b", "queue": 0},
    ]  # fmt: skip
    answer = api.ask("POST", "/topics/Orders/messages", {"messages": messages})
    assert answer.status == 201
    sent = answer.content["messages"]
    assert [(s["status"], s["broker"], s["queue"], s["offset"]) for s in sent] == [
        ("SEND_OK", "broker-b", 0, 0), ("SEND_OK", "broker-b", 0, 1),
    ]  # fmt: skip
    shown = api.ok("GET", "/topics/Orders/messages")
    first, second = shown["messages"]
    assert shown["total"] == 2
    assert (first["body"], first["tags"], first["keys"]) == ("größe", "new", ["k1", "k2"])
    assert first["properties"]["a"] == "b"
    assert first["msgId"] == sent[0]["msgId"]
    assert (second.get("body"), base64.b64decode(second["bodyBase64"])) == (None, blob)
    with shared.cluster.producer() as producer:
        producer.send(Message("Orders", b"third"))
    newest = api.ok("GET", "/topics/Orders/messages?limit=1&newest=true")
    assert (newest["total"], [m["body"] for m in newest["messages"]]) == (3, ["third"])
    assert bodies(api, "/topics/Orders/messages?key=k2") == ["größe"]
    assert bodies(api, "/topics/Orders/messages?tag=old") == []


def test_it_is_waited_for_messages(api: Control) -> None:
    publish(api, "Orders", "x")
    assert bodies(api, "/topics/Orders/messages?waitFor=1") == ["x"]
    problem = api.problem("GET", "/topics/Orders/messages?waitFor=2&timeoutMs=20")
    assert (problem["status"], problem["detail"]) == (
        409, "topic Orders should hold 2 messages and holds 1, after 20 ms",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({}, "'body' (text) or as 'bodyBase64', one of the two"),
        ({"body": "x", "bodyBase64": "eA=="}, "'body' (text) or as 'bodyBase64', one of the two"),
        ({"bodyBase64": "no base64!"}, "bodyBase64 is no base64"),
        ({"body": "x", "queue": 1}, "broker and queue together"),
        ({"body": "x", "delayMs": 1, "delayLevel": 1}, "give one of them"),
        ({"body": "x", "delay": 1}, "unknown field `delay` - at `$.messages[1]`"),
        ({"body": 1}, "Expected `str | null`, got `int` - at `$.messages[1].body`"),
    ],
)
def test_a_message_that_does_not_fit_is_not_sent(
    api: Control, message: dict[str, Any], text: str
) -> None:
    api.ok("PUT", "/topics/Orders")
    both = {"messages": [{"body": "fits"}, message]}
    assert text in api.problem("POST", "/topics/Orders/messages", both)["detail"]
    assert bodies(api, "/topics/Orders/messages") == []


def test_a_name_that_does_not_exist_is_no_empty_topic(api: Control) -> None:
    api.ok("PUT", "/topics/Orders")
    api.ok("PUT", "/groups/billing")
    wrong = api.problem("GET", "/topics/Ordres/messages")
    assert "no topic is called 'Ordres' (did you mean 'Orders'?)" in wrong["detail"]
    assert bodies(api, "/topics/Ordres/messages?missingOk=true") == []
    wrong = api.problem("GET", "/groups/biling/dead-letters")
    assert "no group is called 'biling' (did you mean 'billing'?)" in wrong["detail"]
    assert bodies(api, "/groups/biling/dead-letters?missingOk=true") == []
    assert bodies(api, "/groups/billing/dead-letters") == []


def test_what_is_shown_can_be_published_again(shared: Controlled, api: Control) -> None:
    """Over HTTP as in pipes: a message has one form, and none of its fields is lost."""
    api.ok("PUT", "/topics/Orders", {"queues": 2})
    api.ok("PUT", "/topics/Copies", {"queues": 2})
    sent = {"body": "a", "keys": ["k"], "tags": "t", "properties": {"p": "1"}, "flag": -7}
    api.ok("POST", "/topics/Orders/messages", {"messages": [sent]})
    (shown,) = api.ok("GET", "/topics/Orders/messages?waitFor=1")["messages"]
    assert {name: shown[name] for name in sent if name != "properties"} == {
        name: value for name, value in sent.items() if name != "properties"
    }
    assert shown["properties"]["p"] == "1"
    api.ok("POST", "/topics/Copies/messages", {"messages": [shown]})
    (copy,) = api.ok("GET", "/topics/Copies/messages?waitFor=1")["messages"]
    own = ("topic", "msgId", "offset", "properties", "bornTimestamp", "storeTimestamp")
    assert {k: v for k, v in copy.items() if k not in own} == {
        k: v for k, v in shown.items() if k not in own
    }
    assert copy["properties"]["p"] == "1"
    with shared.cluster.pull_consumer("readers") as consumer:
        queue = MessageQueue("Copies", copy["broker"], copy["queue"])
        (pulled,) = consumer.pull(queue, copy["offset"]).messages
    piped = json.loads(message_line(pulled))
    for one in (copy, piped):
        one.pop("reconsumeTimes", None)
        one["properties"] = {"p": one["properties"]["p"]}
    assert copy == piped


# -- groups ---------------------------------------------------------------------------------------


def test_groups_are_made_shown_reset_and_deleted(shared: Controlled, api: Control) -> None:
    api.ok("PUT", "/topics/Orders", {"queues": 1})
    made = api.ok("PUT", "/groups/billing", {"settings": {"retryMaxTimes": 0}})
    assert made == {"name": "billing", "members": [], "topics": [], "lag": 0, "deadLetters": 0}
    publish(api, "Orders", "good", "bad")
    cluster = shared.cluster

    def bill(messages: Any) -> ConsumeResult:
        return ConsumeResult.RETRY if messages[0].body == b"bad" else ConsumeResult.SUCCESS

    with cluster.push_consumer("billing", listener=bill) as consumer:
        consumer.subscribe("Orders")
        assert api.ok("POST", "/groups/billing/drain")["left"] == 0
        group = api.ok("GET", "/groups/billing")
        assert len(group["members"]) == 1
        assert "Orders" in group["topics"]
        dead = api.ok("GET", "/groups/billing/dead-letters?waitFor=1")
        assert [m["body"] for m in dead["messages"]] == ["bad"]
    done = api.ok("POST", "/groups/billing/reset", {"to": "beginning"})
    assert "2 queues" in done["done"]
    lag = api.ok("GET", "/groups/billing/lag")
    assert lag["left"] == 2
    assert {q["topic"] for q in lag["queues"]} == {"Orders"}
    api.ok("POST", "/groups/billing/reset", {"to": "end", "topic": "Orders"})
    assert api.ok("GET", "/groups/billing/lag")["left"] == 0
    api.ok("POST", "/groups/billing/empty")
    emptied = api.ok("GET", "/groups/billing")
    assert (emptied["topics"], emptied["deadLetters"]) == ([], 0)
    with cluster.admin() as admin:
        config = admin.group_config("billing", cluster.brokers["broker-a"])
    assert config.retry_max_times == 0
    api.ok("DELETE", "/groups/billing")
    assert api.problem("GET", "/groups/billing/lag")["status"] == 404


def test_what_a_group_lacks_is_told_when_it_is_waited_for(api: Control) -> None:
    problem = api.problem("POST", "/groups/nobody/drain", {"timeoutMs": 10})
    assert (problem["status"], "nobody has consumed" in problem["detail"]) == (409, True)
    api.ok("PUT", "/groups/billing")
    both = {"to": "end", "timestampMs": 1}
    assert (
        "one of to and timestampMs" in api.problem("POST", "/groups/billing/reset", both)["detail"]
    )


# -- time -----------------------------------------------------------------------------------------


def test_two_hours_pass_at_once(api: Control) -> None:
    api.ok("PUT", "/topics/Orders")
    publish(api, "Orders", "later", delayLevel=18)
    publish(api, "Orders", "timer", delayMs=7_200_000)
    before = api.ok("GET", "/clock")
    assert (before["mode"], before["waiting"]) == ("offset", 2)
    after = api.ok("POST", "/clock/advance", {"hours": 1, "minutes": 59})
    assert after["waiting"] == 2
    after = api.ok("POST", "/clock/advance", {"minutes": 1, "seconds": 1})
    assert after["waiting"] == 0
    assert after["nowMs"] - before["nowMs"] >= 7_201_000
    assert sorted(bodies(api, "/topics/Orders/messages")) == ["later", "timer"]


def test_the_clock_goes_from_one_due_message_to_the_next(api: Control) -> None:
    api.ok("PUT", "/topics/Orders")
    publish(api, "Orders", "first", delayMs=60_000)
    publish(api, "Orders", "second", delayLevel=18)
    jump = api.ok("POST", "/clock/next")
    assert jump["came"] == [{"topic": "Orders", "messages": 1}]
    assert 50_000 <= jump["jumpedMs"] <= 61_000
    assert (jump["waited"], jump["clock"]["waiting"]) == (2, 1)
    assert bodies(api, "/topics/Orders/messages") == ["first"]
    jump = api.ok("POST", "/clock/next")
    assert jump["clock"]["waiting"] == 0
    assert bodies(api, "/topics/Orders/messages") == ["first", "second"]
    nothing = api.problem("POST", "/clock/next")
    assert (nothing["status"], nothing["title"]) == (409, "Nothing waits for its time")


def test_transactions_are_checked_in_time(shared: Controlled, api: Control) -> None:
    class Unsure:
        def execute_local_transaction(self, message: Any, arg: Any) -> LocalTransactionState:
            return LocalTransactionState.UNKNOWN

        def check_local_transaction(self, message: Any) -> LocalTransactionState:
            return LocalTransactionState.COMMIT

    with shared.cluster.transaction_producer("shop", listener=Unsure()) as producer:
        producer.send_in_transaction(Message("Orders", b"book"))
        until = {"topic": "Orders"}
        assert api.ok("POST", "/clock/advance", {"minutes": 5, "until": until})["waiting"] == 0
    assert bodies(api, "/topics/Orders/messages") == ["book"]


def test_a_jump_goes_on_until_clients_have_brought_it_about(
    shared: Controlled, api: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[float] = []
    advance = shared.cluster.core.advance

    async def counted(seconds: float) -> None:
        steps.append(seconds)
        await advance(seconds)

    monkeypatch.setattr(shared.cluster.core, "advance", counted)
    attempts: list[int] = []

    def bill(messages: Any) -> ConsumeResult:
        attempts.append(messages[0].reconsume_times)
        return ConsumeResult.RETRY

    api.ok("PUT", "/topics/Orders", {"queues": 1})
    api.ok("PUT", "/groups/billing")
    cluster = shared.cluster
    with cluster.push_consumer("billing", listener=bill) as consumer:
        consumer.subscribe("Orders")
        publish(api, "Orders", "bad")
        until = {"deadLettersOf": "billing"}
        api.ok("POST", "/clock/advance", {"hours": 6, "until": until})
    assert attempts == list(range(17))
    assert bodies(api, "/groups/billing/dead-letters") == ["bad"]
    assert len(steps) < 3 * 16  # one for each retry, not one for each minute of four hours


def test_a_jump_that_does_not_bring_it_ends(api: Control) -> None:
    body = {"hours": 1, "until": {"topic": "Orders"}, "timeoutMs": 20}
    assert api.problem("POST", "/clock/advance", body)["status"] == 409
    both = {"hours": 1, "until": {}}
    assert "one of topic" in api.problem("POST", "/clock/advance", both)["detail"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"hour": 1}, "unknown field `hour`"),
        ({"hours": -1}, "cannot be set back"),
        ({"days": 367}, "up to 366 days"),
        ({"hours": "1"}, "Expected `float`, got `str`"),
    ],
)
def test_a_jump_that_does_not_fit(api: Control, body: dict[str, Any], text: str) -> None:
    assert text in api.problem("POST", "/clock/advance", body)["detail"]


def test_the_machines_clock_cannot_be_advanced() -> None:
    with controlled(clock="system") as running:
        problem = running.control.problem("POST", "/clock/advance", {"hours": 1})
        assert (problem["status"], "--clock offset" in problem["remedy"]) == (409, True)
        assert running.control.ok("GET", "/clock")["mode"] == "system"


def test_a_clock_that_stands_still_is_exact() -> None:
    with controlled(clock="virtual") as running:
        before = running.control.ok("GET", "/clock")["nowMs"]
        after = running.control.ok("POST", "/clock/advance", {"hours": 2})["nowMs"]
        assert after - before == 7_200_000


# -- faults ---------------------------------------------------------------------------------------


def test_a_fault_fires_so_often_for_whom_it_is_meant(shared: Controlled, api: Control) -> None:
    api.ok("PUT", "/topics/Orders", {"queues": 1})
    order = {
        "kind": "answer", "code": "SYSTEM_BUSY", "request": "SEND_MESSAGE", "topic": "Orders",
        "times": 2,
    }  # fmt: skip
    answer = api.ask("POST", "/faults", order)
    assert (answer.status, answer.content["warnings"]) == (201, [])
    with shared.cluster.producer("shop", retry_times_when_send_failed=0) as producer:
        for _ in range(2):
            with pytest.raises(PocketMQError, match="SYSTEM_BUSY"):
                producer.send(Message("Orders", b"x"))
        producer.send(Message("Orders", b"y"))
    fault = api.ok("GET", f"/faults/{answer.content['id']}")
    assert (fault["count"], fault["warnings"]) == (2, [])
    assert [(f["request"], f["topic"], f["group"]) for f in fault["fired"]] == [
        ("SEND_MESSAGE_V2", "Orders", "shop")
    ] * 2
    assert api.ok("DELETE", f"/faults/{fault['id']}") == fault
    assert api.ok("GET", "/faults") == {"faults": []}


@pytest.mark.parametrize(
    ("order", "what"),
    [
        ({"kind": "delay", "milliseconds": 1}, "sent"),
        ({"kind": "drop_request", "request": "SEND_MESSAGE"}, "lost"),
        ({"kind": "drop_reply", "request": "SEND_MESSAGE"}, "stored"),
        ({"kind": "close_connection", "request": "SEND_MESSAGE"}, "lost"),
        ({"kind": "send_status", "status": "FLUSH_DISK_TIMEOUT"}, "FLUSH_DISK_TIMEOUT"),
        ({"kind": "pause", "broker": "broker-a"}, "lost"),
        ({"kind": "kill", "broker": "broker-a"}, "lost"),
        ({"kind": "disk_full"}, "lost"),
        ({"kind": "answer", "code": 2, "probability": 1.0, "seed": 3}, "lost"),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_each_kind_does_what_it_says(
    shared: Controlled, api: Control, order: dict[str, Any], what: str
) -> None:
    shared.cluster.thread.run(
        shared.cluster.core.slot("broker-a").start()  # nothing to do when it runs
    )
    api.ok("PUT", "/topics/Orders", {"queues": 1})
    settings = {"send_timeout_ms": 300, "retry_times_when_send_failed": 0}
    with shared.cluster.producer("shop", **settings) as producer:
        queues = producer.queues("Orders")
        queue = next(q for q in queues if q.broker_name == "broker-a")
        fault = api.ok("POST", "/faults", order)
        said = "lost"
        try:
            result = producer.send(Message("Orders", b"x"), queue=queue)
            said = "sent" if result.status.name == "SEND_OK" else result.status.name
        except PocketMQError:
            pass
        api.ok("DELETE", f"/faults/{fault['id']}")
        stored = bodies(api, "/topics/Orders/messages")
        if what == "stored":
            assert (said, stored) == ("lost", ["x"])
        else:
            assert said == what


def test_a_partition_takes_a_broker_from_the_name_server(shared: Controlled, api: Control) -> None:
    fault = api.ok("POST", "/faults", {"kind": "partition", "broker": "broker-b"})
    with shared.cluster.admin() as admin:
        assert [row.broker_name for row in admin.brokers()] == ["broker-a"]
        api.ok("DELETE", f"/faults/{fault['id']}")
        assert [row.broker_name for row in admin.brokers()] == ["broker-a", "broker-b"]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"topic": "Keptt"}, "there is no topic 'Keptt' so far, so the fault fits nothing; did you "
                             "mean 'Kept'?"),
        ({"topic": "Kept", "queue": 7}, "topic Kept has 1 queue, the first is 0"),
        ({"group": "kep"}, "did you mean 'kept'?"),
        ({"client": "10.0.0.1@1"}, "there is no client '10.0.0.1@1' so far"),
        ({"request": "SUSPEND_CONSUMER"}, "no server here carries out SUSPEND_CONSUMER"),
    ],
)  # fmt: skip
def test_a_fault_that_fits_nothing_is_warned_of(
    api: Control, where: dict[str, Any], text: str
) -> None:
    fault = api.ok("POST", "/faults", {"kind": "drop_request", **where})
    assert [text in warning for warning in fault["warnings"]] == [True]
    removed = api.ok("DELETE", f"/faults/{fault['id']}")
    assert "never fired" in removed["warnings"][-1]


def test_what_never_fired_is_logged_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    with controlled() as running:
        running.control.ok("POST", "/faults", {"kind": "drop_reply", "topic": "Nobody"})
    assert "drop_reply(topic='Nobody') never fired" in caplog.text


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ({"kind": "explode"}, "Invalid value 'explode' - at `$.kind`"),
        ({"code": 1}, "missing required field `kind`"),
        ({"kind": "answer", "code": "BUSY"}, "code='BUSY' is no code of RocketMQ"),
        ({"kind": "answer", "code": 2, "topik": "x"}, "unknown field `topik`"),
        ({"kind": "delay", "milliseconds": -1}, ">= 0"),
        ({"kind": "kill", "broker": "broker-z"}, "no broker is called 'broker-z'"),
        ({"kind": "drop_reply", "times": 0}, "times=0 must be 1 or more"),
        ({"kind": "drop_reply", "probability": 2}, "must be between 0 and 1"),
        ({"kind": "send_status", "status": "SEND_OK"}, "Invalid enum value 'SEND_OK'"),
    ],
)
def test_a_fault_that_does_not_fit(api: Control, order: dict[str, Any], text: str) -> None:
    assert text in api.problem("POST", "/faults", order)["detail"]
    assert api.ok("GET", "/faults") == {"faults": []}


# -- whom it refuses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1.evil.example:80"},
        {"Host": "192.168.0.1"},
        {"Host": ""},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
def test_pages_of_others_are_refused(api: Control, headers: dict[str, str]) -> None:
    for path in ("/health", "/openapi.json"):
        assert api.problem("GET", path, headers=headers)["status"] == 403
    assert api.problem("POST", "/shutdown", headers=headers)["status"] == 403


def test_its_own_names_are_let_in(api: Control) -> None:
    port = api.address.rpartition(":")[2]
    for host in (f"localhost:{port}", f"127.0.0.1:{port}", "LOCALHOST", f"[::1]:{port}"):
        headers = {"Host": host, "Origin": f"http://{host}", "Sec-Fetch-Site": "same-origin"}
        assert api.ask("GET", "/health", headers=headers).status == 200


def test_elsewhere_it_is_for_all_addresses_but_not_for_names_of_the_internet(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with controlled(host="0.0.0.0") as running:
        for host in ("192.168.0.1:80", "pocketmq:80", "localhost"):
            answer = running.control.ask("GET", "/health", headers={"Host": host})
            assert answer.status == 200
        refused = running.control.problem("GET", "/health", headers={"Host": "evil.example"})
        assert refused["status"] == 403
    assert "asks nobody for a password" in caplog.text


def test_bodies_are_bounded_and_json(api: Control) -> None:
    path = "/topics/Orders/messages"
    kind = {"Content-Type": "application/json"}
    size = str(BODY_MAX + 1)
    assert api.problem("POST", path, headers={**kind, "Content-Length": size})["status"] == 413
    form = {"Content-Type": "text/plain"}
    assert api.problem("POST", path, raw=b"{}", headers=form)["status"] == 415
    assert "no body" in api.problem("POST", "/reset", {"all": True})["detail"]
    assert "truncated" in api.problem("POST", path, raw=b"{", headers=kind)["detail"]
    assert api.problem("POST", path, raw=b"\xff\xfe", headers=kind)["status"] == 400


def test_a_body_of_unknown_length_is_bounded(api: Control) -> None:
    connection = http.client.HTTPConnection(api.address, timeout=60)
    headers = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
    parts = (b" " * (1 << 20) for _ in range(9))
    try:
        connection.request("POST", "/topics/T/messages", parts, headers, encode_chunked=True)
        assert connection.getresponse().status == 413
    except BrokenPipeError:  # it was refused, and hung up, while we wrote
        pass
    finally:
        connection.close()
    assert api.ok("GET", "/health")["status"] == "up"


def test_what_does_not_exist_is_named(api: Control) -> None:
    assert api.problem("GET", "/nothing")["status"] == 404
    assert api.problem("PATCH", "/topics")["status"] == 405
    assert "takes no parameters" in api.problem("GET", "/topics?all=1")["detail"]
    unknown = api.problem("GET", "/topics/Kept/messages?count=1")["detail"]
    assert "unknown field `count`" in unknown
    assert "waitFor" in unknown
    assert api.problem("DELETE", "/faults/99")["status"] == 404


def test_a_port_in_use_is_named(shared: Controlled) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = ControlServer(shared.cluster.core, "127.0.0.1", port)
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: .*--control PORT, or 0"):
            shared.cluster.thread.run(server.__aenter__())
