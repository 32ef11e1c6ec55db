"""What waits, over the console's API: delays, timers, half messages, pops; and traces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control

from pocketmq.client import (
    LocalTransactionState,
    Message,
    ReceivedMessage,
    RetryLater,
    SimpleConsumer,
    TransactionListener,
)
from pocketmq.protocol.names.names import TRACE_TOPIC

HOUR_MS = 3_600_000


ENDS = {b"commit": LocalTransactionState.COMMIT, b"roll back": LocalTransactionState.ROLLBACK}


class ByBody(TransactionListener):
    """Ends transactions as their bodies say."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return ENDS.get(bytes(message.body), LocalTransactionState.UNKNOWN)

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return ENDS.get(bytes(message.body), LocalTransactionState.UNKNOWN)


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    topics = {"Orders": 2, "Others": 1, "Traced": 1, "Popped": 1}
    with consoled(brokers=2, topics=topics, groups=["billing", "tracing"]) as running:
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


def get(api: Control, path: str, **query: Any) -> Any:
    return api.ok("GET", f"{API}/{path}?{urlencode(query)}")


def waiting(api: Control, kind: str, topic: str = "Orders", **query: Any) -> Any:
    return get(api, f"topics/{quote(topic, safe='')}/waiting", kind=kind, **query)


def keys(found: Any) -> list[str]:
    return sorted(key for one in found["messages"] for key in one["message"]["keys"])


# -- times and levels -----------------------------------------------------------------------------


def test_timers_wait_and_are_called_back(shared: Consoled, api: Control) -> None:
    now_ms = shared.cluster.clock.now_ms()
    with shared.cluster.producer() as producer:
        sent = [
            producer.send(
                Message(
                    "Orders", b"later", keys=[f"t{n}"], deliver_at_ms=now_ms + (n + 1) * HOUR_MS
                )
            )
            for n in range(4)
        ]
        producer.send(Message("Others", b"later", keys=["other"], deliver_at_ms=now_ms + HOUR_MS))
    found = waiting(api, "timer")
    assert keys(found) == ["t0", "t1", "t2", "t3"]
    assert (found["stopped"], found["next"], found["scanned"]) == ("end", None, 5)
    (first,) = [one for one in found["messages"] if one["message"]["keys"] == ["t0"]]
    assert first["dueMs"] == now_ms + HOUR_MS
    assert first["canBeRecalled"]
    assert first["message"]["body"] == "later"
    path = f"{API}/topics/Orders/waiting/{sent[1].msg_id}"
    assert api.ok("DELETE", path) == {"recalled": sent[1].msg_id}
    found = waiting(api, "timer")
    assert (keys(found), found["recalled"]) == (["t0", "t2", "t3"], 1)
    assert api.problem("DELETE", path)["status"] == 409
    for nothing in (f"Others/waiting/{sent[0].msg_id}", "Orders/waiting/none", "No/waiting/none"):
        assert api.problem("DELETE", f"{API}/topics/{nothing}")["status"] == 404
    part = waiting(api, "timer", scan=1)
    assert (part["stopped"], part["scanned"]) == ("scan", 1)
    seen = keys(part)
    while part["next"] is not None:
        part = waiting(api, "timer", scan=1, cursor=part["next"])
        seen += keys(part)
    assert sorted(seen) == ["t0", "t2", "t3"]
    assert keys(waiting(api, "timer", topic="Others")) == ["other"]
    with console(shared.cluster, read_only=True, no_bodies=True) as hidden:
        assert hidden.api.problem("DELETE", path)["status"] == 403
        assert {one["message"]["body"] for one in waiting(hidden.api, "timer")["messages"]} == {
            None
        }


def test_what_is_due_waits_no_more(shared: Consoled, api: Control) -> None:
    levels = ("1s", 1), ("2h", 18)
    with shared.cluster.producer() as producer:
        for key, level in levels:
            for number in range(3):
                message = Message("Orders", b"x", keys=[f"{key}-{number}"], delay_level=level)
                producer.send(message)
    due: set[str] = set()
    with shared.cluster.pull_consumer("readers") as reader:
        while len(due) < 3:
            for queue in reader.queues("Orders"):
                due |= {m.keys[0] for m in reader.pull(queue, 0).messages}
    found = waiting(api, "level")
    assert keys(found) == ["2h-0", "2h-1", "2h-2"]
    assert {one["level"] for one in found["messages"]} == {18}
    stored = found["messages"][0]["message"]["storeTimestamp"]
    assert found["messages"][0]["dueMs"] == stored + 2 * HOUR_MS
    assert not found["messages"][0]["canBeRecalled"]
    assert found["scanned"] == 3, "those that are due were not looked at"


def test_retries_of_a_group_wait(shared: Consoled, api: Control) -> None:
    def fails(_: object) -> RetryLater:
        return RetryLater(10)

    assert waiting(api, "level", topic="%RETRY%nobody")["messages"] == []
    with shared.cluster.producer() as producer:
        producer.send(Message("Others", b"x", keys=["failed"]))
    with shared.cluster.push_consumer("billing", listener=fails) as consumer:
        consumer.subscribe("Others")
        while not (found := waiting(api, "level", topic="%RETRY%billing"))["messages"]:
            pass
    assert keys(found) == ["failed"]


# -- transactions ---------------------------------------------------------------------------------


def test_half_messages_wait_until_they_end(shared: Consoled, api: Control) -> None:
    with shared.cluster.transaction_producer("tp", listener=ByBody()) as producer:
        for number, body in enumerate([b"commit", b"open", b"roll back", b"open"]):
            producer.send_in_transaction(Message("Orders", body, keys=[f"h{number}"]))
        found = waiting(api, "half")
    assert keys(found) == ["h1", "h3"]
    assert found["scanned"] == 4
    assert {one["producerGroup"] for one in found["messages"]} == {"tp"}
    assert all(one["isCertain"] and one["dueMs"] is None for one in found["messages"])


def test_ended_long_ago_is_told_as_uncertain(
    shared: Consoled, api: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pocketmq.console.api.waiting.halves.RECORDS_MAX", 0)
    found = waiting(api, "half")
    assert len(found["messages"]) == 4
    assert not any(one["isCertain"] for one in found["messages"])


# -- pops -----------------------------------------------------------------------------------------


def test_popped_messages_are_in_flight(shared: Consoled, api: Control) -> None:
    async def pop() -> None:
        async with SimpleConsumer("billing", shared.cluster.namesrv) as consumer:
            consumer.subscribe("Popped")
            got = await consumer.receive(2, invisible_ms=HOUR_MS)
            assert len(got) == 2
            await consumer.ack(got[0])

    with shared.cluster.producer() as producer:
        queue = producer.queues("Popped")[0]
        for _ in range(3):
            producer.send(Message("Popped", b"x"), queue=queue)
    shared.cluster.thread.run(pop())
    found = get(api, "groups/billing/in-flight", topic="Popped")
    assert (found["total"], found["untold"], len(found["messages"])) == (1, [], 1)
    (one,) = found["messages"]
    assert (one["topic"], one["broker"], one["offset"]) == ("Popped", queue.broker_name, 1)
    assert one["dueMs"] == one["poppedMs"] + HOUR_MS
    assert api.problem("GET", f"{API}/groups/billing/in-flight?topic=No")["status"] == 404
    with shared.cluster.faults.answer("REQUEST_CODE_NOT_SUPPORTED", request="IN_FLIGHT"):
        untold = get(api, "groups/billing/in-flight", topic="Popped")
    assert (untold["total"], untold["untold"]) == (0, ["broker-a", "broker-b"])


# -- traces ---------------------------------------------------------------------------------------


def test_the_traces_of_a_message(shared: Consoled, api: Control) -> None:
    with shared.cluster.producer("shop", enable_trace=True) as producer:
        sent = producer.send(Message("Traced", b"x", keys=["order-1"]))
    with shared.cluster.push_consumer(
        "tracing", listener=lambda _: None, enable_trace=True
    ) as consumer:
        consumer.subscribe("Traced")
        shared.cluster.drain("tracing")
    path = f"topics/Traced/messages/{sent.msg_id}/trace"
    found = get(api, path)
    kinds = {span["kind"]: span for span in found["spans"]}
    assert set(kinds) == {"send", "store", "consume"}
    assert (kinds["send"]["group"], kinds["consume"]["group"]) == ("shop", "tracing")
    assert kinds["consume"]["isSuccess"]
    assert kinds["consume"]["outcome"] == "SUCCESS"
    begins = [span["beginMs"] for span in found["spans"]]
    assert begins == sorted(begins)
    assert found["beginMs"] == begins[0]
    with shared.cluster.producer() as producer:
        bad = b"Pub\x01soon\x01x\x02"
        producer.send(Message(TRACE_TOPIC, bad, keys=[sent.msg_id]))
        late = f"Recall\x01{10**18}\x01r\x01g\x01Traced\x01{sent.msg_id}\x01true\x02".encode()
        producer.send(Message(TRACE_TOPIC, late, keys=[sent.msg_id]))
    again = get(api, path)
    assert (len(again["spans"]), again["unreadable"]) == (3, 1)
    assert get(api, "topics/Traced/messages/none/trace")["spans"] == []
    untraced = get(api, path, traceTopic="No")
    assert [span["kind"] for span in untraced["spans"]] == ["store"]
    assert "turn traces on" in untraced["problem"]
