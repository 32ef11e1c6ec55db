"""`pocketmq message …`, run as people run it."""

from __future__ import annotations

import json

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster

from pocketmq.client import Message, blocking

TRACES = "CliTraces"


@pytest.fixture(scope="module")
def cluster(one_broker: Cluster) -> Cluster:
    return one_broker


@pytest.fixture(scope="module")
def sent(cluster: Cluster) -> list[str]:
    """The ids of ten messages; their producer has told of them."""
    ok("topic", "create", "CliFind", "--queues", "2", "--namesrv", cluster.namesrv)
    ok("topic", "create", TRACES, "--queues", "1", "--namesrv", cluster.namesrv)
    with blocking.Producer(
        "finders", cluster.namesrv, enable_trace=True, trace_topic=TRACES
    ) as producer:
        return [
            producer.send(Message("CliFind", b"%d" % i, tags="odd" * (i % 2), keys=["k", f"k{i}"]))
            .msg_id
            for i in range(10)
        ]  # fmt: skip


def found(cluster: Cluster, *words: str) -> list[dict[str, object]]:
    out = ok("message", "find", "CliFind", *words, "-o", "json", "-n", cluster.namesrv)
    rows: list[dict[str, object]] = json.loads(out)
    return rows


def test_messages_are_found_by_key_and_tag(cluster: Cluster, sent: list[str]) -> None:
    assert [row["msgId"] for row in found(cluster, "--key", "k3")] == [sent[3]]
    assert {row["msgId"] for row in found(cluster, "--key", "k")} == set(sent)
    assert {row["msgId"] for row in found(cluster, "--tag", "odd")} == set(sent[1::2])
    newest = found(cluster, "--key", "k", "--count", "2")
    assert len(newest) == 2
    assert {row["broker"] for row in found(cluster, "--key", "k")} <= {"broker-a", "broker-b"}
    assert len(found(cluster, "--key", "k", "--begin", "2020-01-01", "--end", "2999-01-01")) == 10
    table = ok("message", "find", "CliFind", "--key", "k3", "-n", cluster.namesrv)
    assert sent[3] in table
    assert "k k3" in table


def test_one_message_is_shown(cluster: Cluster, sent: list[str]) -> None:
    names = ("-n", cluster.namesrv)
    shown = json.loads(ok("message", "get", sent[4], "--topic", "CliFind", "-o", "json", *names))
    assert (shown["body"], shown["keys"], shown["msgId"]) == ("4", ["k", "k4"], sent[4])
    by_place = json.loads(ok("message", "get", shown["offsetMsgId"], "-o", "json", *names))
    assert by_place | {"broker": shown["broker"]} == shown
    text = ok("message", "get", shown["offsetMsgId"], *names)
    assert "body: 4\n" in text
    assert "keys: k k4\n" in text


def test_its_trace_is_shown(cluster: Cluster, sent: list[str]) -> None:
    words = ("message", "trace", sent[0], "--trace-topic", TRACES, "-n", cluster.namesrv)
    (row,) = json.loads(ok(*words, "-o", "json"))
    assert (row["kind"], row["group"], row["result"]) == ("Pub", "finders", "success")
    assert row["host"] in cluster.brokers.values()


def refused(cluster: Cluster, exit_code: int, *words: str) -> str:
    done = pocketmq("message", *words, "--namesrv", cluster.namesrv)
    assert done.returncode == exit_code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_what_is_not_there_and_mistakes_are_told(cluster: Cluster, sent: list[str]) -> None:
    assert "has the key nothing" in refused(cluster, 1, "find", "CliFind", "--key", "nothing")
    assert "has the tag k" in refused(cluster, 1, "find", "CliFind", "--tag", "k")
    assert "either --key or --tag" in refused(cluster, 2, "find", "CliFind")
    assert "--begin is 'noon'" in refused(
        cluster, 2, "find", "CliFind", "--key", "k", "--begin", "noon"
    )
    assert "Nowhere" in refused(cluster, 1, "find", "Nowhere", "--key", "k")
    assert "no message X in topic" in refused(cluster, 1, "get", "X", "--topic", "CliFind")
    assert "no offset message id" in refused(cluster, 2, "get", "X")
    assert "nobody has told anything" in refused(cluster, 1, "trace", "X", "--trace-topic", TRACES)
