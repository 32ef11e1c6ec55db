"""Apache's client for Go, on Apache's broker and on this cluster.

What it cannot do, on Apache's broker neither, is left out: it has no pull consumer with assigned
queues or ``seek`` (``PullFrom`` and ``UpdateOffset`` stand for them), no VIP channel (its option
does nothing), its ``Pull`` may wait at the retry topic, and messages that a polling consumer
acknowledges as failed go to that topic, which it does not read.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from interop.conftest import RunProbe
from support.interop.clusters import Cluster
from support.interop.go_probe import PROJECT, GoProbe
from support.interop.scenarios import NewName, Scenarios, by_key, by_member, keys, numbers, play

# The first run downloads the client.
pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

COMMANDS = (
    "admin",
    "broadcasting",
    "clustering",
    "control",
    "delays",
    "filters",
    "methods",
    "namespaces",
    "orderly",
    "orderly-retries",
    "poll",
    "pull",
    "request-reply",
    "retries",
    "sends",
    "trace",
    "transactions",
)
NOT_CALLED = {
    "PullConsumer.Pull": "it may wait 20 s at the group's retry topic, see above",
}
"""Methods of the client's interfaces that no scenario calls, and why."""

QUEUES = 4
# Of levels 1 and 2 in BROKER_SETTINGS.
LEVEL_DELAY_MS = 1000
COMMITTED, ROLLED_BACK, UNKNOWN = 1, 2, 3
COMPRESSED, TRANSACTION_COMMITTED = 1, 8


@pytest.fixture(
    scope="module",
    params=[pytest.param("apache", marks=pytest.mark.whole_interop), "pocketmq"],
)
def seen(request: pytest.FixtureRequest, go_probe: GoProbe, new_name: NewName) -> Scenarios:
    """All scenarios, played together, first on Apache's cluster and then on this project's."""
    fixture = {"apache": "apache", "pocketmq": "cluster"}[request.param]
    cluster: Cluster = request.getfixturevalue(fixture)
    if not cluster.brokers:
        pytest.skip("the Go client needs a broker's address: the running cluster's is not known")
    [broker] = cluster.brokers.values()

    def run(command: str, **options: Any) -> Any:
        return go_probe.run(command, namesrv=cluster.namesrv, broker=broker, **options)

    go: RunProbe = run
    return play(go, new_name, *COMMANDS, is_control=request.param == "apache")


def test_every_form_of_send_is_answered(seen: Scenarios) -> None:
    sends = seen["sends"]
    assert {result["status"] for result in sends["sent"]} == {"SEND_OK"}
    forms = [result["form"] for result in sends["sent"]]
    assert forms == ["sync", "sync", "async", "batch", "hash", "hash", *["queue"] * QUEUES]


def test_what_was_sent_is_read(seen: Scenarios) -> None:
    sends = seen["sends"]
    received = {message["keys"]: message for message in sends["received"]}
    assert len(received) == len(sends["received"])
    for result in sends["sent"]:
        for key, offset_id in zip(
            result["key"].split(","), result["offsetMsgId"].split(","), strict=True
        ):
            message = received.pop(key)
            assert message["offsetMsgId"] == offset_id
            assert message["queueId"] == result["queueId"]
            if key != "large":
                assert message["body"] == key
    assert set(received) == {"one-way"}


def test_message_keeps_what_it_was_given(seen: Scenarios) -> None:
    [plain] = [one for one in seen["sends"]["received"] if one["keys"] == "sync"]
    assert (plain["tags"], plain["flag"], plain["properties"]["colour"]) == ("TagA", 7, "blå")


def test_large_message_travels_compressed(seen: Scenarios) -> None:
    [large] = [one for one in seen["sends"]["received"] if one["keys"] == "large"]
    assert large["sysFlag"] & COMPRESSED
    assert large["body"] == "compressed " * (len(large["body"]) // 11)
    assert len(large["body"]) > 90_000


def test_queue_selectors(seen: Scenarios) -> None:
    sent = seen["sends"]["sent"]
    assert len({one["queueId"] for one in sent if one["form"] == "hash"}) == 1
    by_hand = {one["key"]: one["queueId"] for one in sent if one["form"] == "queue"}
    assert by_hand == {f"queue-{queue}": queue for queue in range(QUEUES)}


def test_delayed_messages_come_when_they_are_due(seen: Scenarios) -> None:
    delivered = by_key(seen["delays"]["deliveries"])
    assert set(delivered) == {"0", "1", "2"}
    for key, [message] in delivered.items():
        waited_ms = message["storeTimestamp"] - message["bornTimestamp"]
        assert waited_ms >= (LEVEL_DELAY_MS if key != "0" else 0)


def test_transactions(seen: Scenarios) -> None:
    transactions = seen["transactions"]
    assert transactions["states"] == {
        "commit": COMMITTED,
        "rollback": ROLLED_BACK,
        "check-commit": UNKNOWN,
        "check-rollback": UNKNOWN,
    }
    assert transactions["visible"] == 1
    messages = [one["message"] for one in transactions["deliveries"]]
    assert [message["keys"] for message in messages] == ["commit", "check-commit"]
    for message in messages:
        assert message["sysFlag"] & TRANSACTION_COMMITTED
    for key in ("check-commit", "check-rollback"):
        assert transactions["checks"][key] >= 2


def test_members_of_a_group_share_the_queues(seen: Scenarios) -> None:
    clustering = seen["clustering"]
    got = keys(one for one in clustering["deliveries"] if int(one["message"]["keys"]) >= 0)
    # Whoever takes a queue over may begin with what the last one had not yet committed.
    assert set(got) == set(numbers(clustering["sent"]))
    assert set(by_member(clustering["deliveries"])) == {"first", "second"}


def test_broadcasting_members_all_get_everything_once(seen: Scenarios) -> None:
    sent, deliveries = seen["broadcasting"]["sent"], seen["broadcasting"]["deliveries"]
    got = {member: keys(some) for member, some in by_member(deliveries).items()}
    assert got == {"first": numbers(sent), "second": numbers(sent)}


def test_order_holds_in_each_queue(seen: Scenarios) -> None:
    orderly = seen["orderly"]
    for queue in range(QUEUES):
        got = [
            int(one["message"]["keys"])
            for one in orderly["deliveries"]
            if one["message"]["queueId"] == queue
        ]
        assert got == list(range(queue, orderly["sent"], QUEUES))


def test_queue_waits_for_its_failed_message(seen: Scenarios) -> None:
    attempts = [
        (one["message"]["keys"], one["message"]["reconsumeTimes"])
        for one in seen["orderly-retries"]["deliveries"]
    ]
    assert attempts == [("first", 0), ("suspended", 0), ("suspended", 1), ("after", 0)]


def test_failed_messages_come_again_until_they_are_dead_letters(seen: Scenarios) -> None:
    retries = seen["retries"]
    delivered = by_key(retries["deliveries"])
    attempts = {key: [m["reconsumeTimes"] for m in got] for key, got in delivered.items()}
    assert attempts == {
        "fine": [0],
        "hopeless": [0, 1, 2],
        "error": [0, 1, 2],
        "refused": [0],
        "once": [0, 1],
    }
    dead = {message["keys"]: message["reconsumeTimes"] for message in retries["deadLetters"]}
    assert dead == {"refused": 1, "hopeless": 3, "error": 3}


def test_filters_by_sql_and_by_tags(seen: Scenarios) -> None:
    filters = seen["filters"]
    by_sql = [n for n in range(5, 15) if n % 3 != 1] + [19, 28, 29]
    assert sorted(map(int, filters["bySql"])) == by_sql
    by_tags = [n for n in range(28) if n % 10 in (1, 2)] + [28, 29]
    assert sorted(map(int, filters["byTags"])) == by_tags


def test_pull_by_offset(seen: Scenarios) -> None:
    pulled = seen["pull"]
    assert [message["keys"] for message in pulled["fromStart"]] == [str(n) for n in range(10)]
    assert [message["keys"] for message in pulled["fromMiddle"]] == ["7", "8"]
    # The broker held this pull until the message came.
    assert [message["keys"] for message in pulled["waited"]] == ["10"]


def test_pull_goes_where_it_is_set(seen: Scenarios) -> None:
    pulled = seen["pull"]
    assert pulled["current"] == 4
    assert [message["keys"] for message in pulled["next"]] == ["4", "5"]


def test_a_consumer_is_suspended_resumed_and_unsubscribed(seen: Scenarios) -> None:
    control = seen["control"]
    assert keys(control["deliveries"]) == numbers(10)
    assert control["behind"] == 0
    assert control["unsubscribed"]


def test_poll_goes_on_where_its_group_committed(seen: Scenarios) -> None:
    polled = seen["poll"]
    assert keys(polled["first"]) == numbers(10)
    assert keys(polled["second"]) == {str(n): 1 for n in range(10, 14)}


@pytest.mark.parametrize(("kind", "key"), [("waited", "waited"), ("calledBack", "called back")])
def test_requests_are_answered(seen: Scenarios, kind: str, key: str) -> None:
    exchange = seen["request-reply"]
    reply = exchange[kind]
    assert reply["body"] == f"answer to {key}"
    [request] = by_key(exchange["requests"])[key]
    for name in ("CORRELATION_ID", "REPLY_TO_CLIENT", "TTL"):
        assert reply["properties"][name] == request["properties"][name]
    assert int(reply["properties"]["PUSH_REPLY_TIME"]) > 0
    assert reply["properties"]["MSG_REGION"] == "DefaultRegion"


def test_request_without_an_answer_times_out(seen: Scenarios) -> None:
    assert seen["request-reply"]["unanswered"] == "timeout"


def test_producer_and_consumer_leave_traces(seen: Scenarios) -> None:
    trace = seen["trace"]
    records = {record[0]: record for record in trace["records"]}
    assert set(records) == {"Pub", "SubBefore", "SubAfter"}
    assert records["Pub"][3:6] == [trace["group"], trace["topic"], trace["msgId"]]
    assert records["SubBefore"][3] == trace["group"]
    assert records["SubBefore"][5] == records["SubAfter"][2] == trace["msgId"]


def test_operator_creates_changes_and_deletes_topics(seen: Scenarios) -> None:
    admin = seen["admin"]
    assert admin["queues"] == [0, 1, 2]
    assert admin["changed"] == 5
    assert admin["listed"]
    assert admin["groupListed"]
    assert admin["deleted"]
    assert admin["missingError"] == "topic not exist"


def test_no_method_is_forgotten(seen: Scenarios) -> None:
    """By the client's own list; each is called somewhere in the scenarios."""
    sources = "\n".join(source.read_text() for source in PROJECT.glob("*.go"))
    called = set(re.findall(r"\.([A-Z]\w*)\(", sources))
    # Those that end are handed over to be called when a scenario does.
    called |= set(re.findall(r"closeLater\(\w+\.([A-Z]\w*)\)", sources))
    there_are = {
        f"{of}.{name}" for of, names in seen["methods"].items() for name in names
    }  # fmt: skip
    assert {name for name in there_are if name.split(".")[1] not in called} == set(NOT_CALLED)


def test_namespaces(seen: Scenarios) -> None:
    namespaces = seen["namespaces"]
    [delivery] = namespaces["deliveries"]
    [stored] = namespaces["stored"]
    assert delivery["message"]["msgId"] == stored["msgId"]
    assert stored["topic"] == f"golang%{namespaces['topic']}"
