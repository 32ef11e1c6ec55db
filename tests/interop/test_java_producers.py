"""Apache's producers on this cluster: delays, timers, transactions, requests, message trace."""

from __future__ import annotations

import pytest
from interop.conftest import RunProbe
from support.interop.java_probe import JavaProbe
from support.interop.scenarios import NewName, Scenarios, by_key, keys, play

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

# Of levels 1 to 4 in BROKER_SETTINGS.
LEVEL_DELAYS_MS = {"0": 0, "1": 1000, "2": 1000, "3": 1000, "4": 2000}
# Apache's timer wheel turns by seconds: it delivers up to one early.
WHEEL_STEP_MS = 1000
MESSAGE_ILLEGAL = 13
ILLEGAL_OPERATION = 604
REFUSED_BY_CLIENT = -1
TRANSACTION_COMMITTED = 8


@pytest.fixture(scope="module")
def seen(java: RunProbe, new_name: NewName, probe: JavaProbe) -> Scenarios:
    """All scenarios of this module, played together."""
    only_5 = ("timers",) if probe.is_5 else ()
    commands = ("delays", "trace", "transactions", "request-reply", *only_5)
    return play(java, new_name, *commands)


@pytest.fixture
def since_5(probe: JavaProbe) -> None:
    """Skips a test of what the client has since 5.0."""
    if not probe.is_5:
        pytest.skip(f"the client {probe.client_version} has no timers and no recall")


def test_delayed_messages_come_when_they_are_due(seen: Scenarios) -> None:
    delays = seen["delays"]
    assert {result["status"] for result in delays["results"]} == {"SEND_OK"}
    assert keys(delays["deliveries"]) == dict.fromkeys(LEVEL_DELAYS_MS, 1)
    for level, [message] in by_key(delays["deliveries"]).items():
        waited_ms = message["storeTimestamp"] - message["bornTimestamp"]
        assert waited_ms >= LEVEL_DELAYS_MS[level], level
        if level != "0":
            assert message["properties"]["DELAY"] == level
            assert message["properties"]["REAL_TOPIC"] == message["topic"]


@pytest.mark.usefixtures("since_5")
def test_timers_come_when_they_are_due(seen: Scenarios) -> None:
    timers = seen["timers"]
    delivered = by_key(timers["deliveries"])
    assert {key: len(messages) for key, messages in delivered.items()} == {
        "past": 1,
        "delay in ms": 1,
        "delay in s": 1,
        "deliver at": 1,
    }
    for key, [message] in delivered.items():
        assert message["storeTimestamp"] >= timers["dueAt"][key] - WHEEL_STEP_MS, key
        assert message["msgId"] == timers["msgIds"][key]
    assert delivered["delay in s"][0]["properties"]["TIMER_DELAY_SEC"] == "2"
    assert delivered["delay in ms"][0]["properties"]["TIMER_DELAY_MS"] == "1500"


@pytest.mark.usefixtures("since_5")
def test_recalled_timer_does_not_come(seen: Scenarios) -> None:
    timers = seen["timers"]
    assert timers["recalled"] == timers["msgIds"]["recalled"]
    assert "recalled" not in by_key(timers["deliveries"])
    # The last that came was due later.
    assert timers["dueAt"]["recalled"] + WHEEL_STEP_MS < timers["dueAt"]["deliver at"]


@pytest.mark.usefixtures("since_5")
def test_timers_and_recalls_that_cannot_be_are_refused(seen: Scenarios) -> None:
    assert seen["timers"]["refusals"] == {
        "garbage": REFUSED_BY_CLIENT,
        "other topic": ILLEGAL_OPERATION,
        "too far": MESSAGE_ILLEGAL,
    }


def test_transactions_are_visible_once_they_are_committed(seen: Scenarios) -> None:
    transactions = seen["transactions"]
    assert transactions["states"] == {
        "commit": "COMMIT_MESSAGE",
        "rollback": "ROLLBACK_MESSAGE",
        "check-commit": "UNKNOW",
        "check-rollback": "UNKNOW",
    }
    assert {result["status"] for result in transactions["results"]} == {"SEND_OK"}
    # While the producer knew nothing, only what it had committed was there.
    assert transactions["visible"] == 1
    assert [one["message"]["keys"] for one in transactions["deliveries"]] == [
        "commit",
        "check-commit",
    ]
    assert transactions["stored"] == 2


def test_unknown_transactions_are_checked_until_they_are_known(seen: Scenarios) -> None:
    transactions = seen["transactions"]
    # At least one check that found nothing, and the one that decided.
    assert transactions["checks"]["check-commit"] >= 2
    assert transactions["checks"]["check-rollback"] >= 2


def test_committed_transaction_is_the_message_that_was_sent(seen: Scenarios) -> None:
    transactions = seen["transactions"]
    sent = {result["msgId"]: result for result in transactions["results"]}
    for delivery in transactions["deliveries"]:
        message = delivery["message"]
        result = sent[message["msgId"]]
        assert result["transactionId"] == message["properties"]["__transactionId__"]
        assert message["properties"]["TRAN_MSG"] == "true"
        assert message["properties"]["PGROUP"]
        assert message["sysFlag"] & TRANSACTION_COMMITTED
        assert "REAL_TOPIC" not in message["properties"]


@pytest.mark.parametrize(("kind", "key"), [("waited", "waited"), ("calledBack", "called back")])
def test_requests_are_answered(seen: Scenarios, kind: str, key: str) -> None:
    exchange = seen["request-reply"]
    reply = exchange[kind]
    assert (reply["body"], reply["tags"]) == (f"answer to {key}", "answer")
    [request] = by_key(exchange["requests"])[key]
    for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"):
        assert reply["properties"][name] == request["properties"][name]
    assert reply["properties"]["MSG_TYPE"] == "reply"
    assert int(reply["properties"]["PUSH_REPLY_TIME"]) > 0


def test_request_without_an_answer_times_out(seen: Scenarios) -> None:
    assert seen["request-reply"]["unanswered"] == "timeout"


def test_producer_and_consumer_leave_traces(seen: Scenarios) -> None:
    trace = seen["trace"]
    records = {record[0]: record for record in trace["records"]}
    assert set(records) == {"Pub", "SubBefore", "SubAfter"}
    assert records["Pub"][3:6] == [trace["group"], trace["topic"], trace["msgId"]]
    assert records["Pub"][-1] == "true"
    assert records["SubBefore"][3] == trace["group"]
    assert records["SubBefore"][5] == records["SubAfter"][2] == trace["msgId"]
    assert records["SubBefore"][4] == records["SubAfter"][1]
