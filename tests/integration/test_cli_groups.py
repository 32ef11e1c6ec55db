"""`pocketmq group …`, run as people run it: in processes of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.commands.process import COMMAND, TIMEOUT_S
from support.interop.clusters import Cluster

from pocketmq.client import ClientInstance, PushConsumer


@pytest.fixture(scope="module")
def cluster(one_broker: Cluster) -> Cluster:
    return one_broker


def rows(cluster: Cluster, *words: str) -> Any:
    return json.loads(ok("group", *words, "-o", "json", "--namesrv", cluster.namesrv))


def refused(cluster: Cluster, code: int, *words: str) -> str:
    done = pocketmq("group", *words, "--namesrv", cluster.namesrv)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_groups_are_created_changed_shown_and_deleted(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("group", "create", "g1", "--retry-times", "3", "--no-broadcast", "--attribute",
       "+lite.bind.topic=b", *names)  # fmt: skip
    ok("group", "update", "g1", "--no-consume", "--retry-queues", "2", *names)
    shown = rows(cluster, "show", "g1")
    (settings,) = shown["settings"]
    assert settings["broker"] in cluster.brokers.values()
    assert (settings["consume"], settings["broadcast"], settings["notify"]) == (False, False, True)
    assert (settings["retryQueues"], settings["retryTimes"]) == (2, 3)
    assert settings["attributes"] == "lite.bind.topic=b"
    assert shown["members"] == shown["conflicts"] == []
    listed = {row["group"] for row in rows(cluster, "list")}  # on Apache's, of other tests too
    assert "g1" in listed
    assert "TOOLS_CONSUMER" not in listed
    assert "TOOLS_CONSUMER" in {row["group"] for row in rows(cluster, "list", "--all")}
    ok("group", "delete", "g1", "--clean-offsets", *names)
    assert "there is no group g1" in refused(cluster, 1, "show", "g1")
    assert "there is no group g1" in refused(cluster, 1, "delete", "g1")


def test_a_group_is_behind_and_put_elsewhere(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "Lag", "--queues", "2", *names)
    ok("produce", "Lag", "--sharding-key", "k", *names, stdin="\n".join("abcdef"))
    ok("consume", "Lag", "--group", "g2", "--from-beginning", "--count", "4", "--timeout", "20",
       *names)  # fmt: skip
    by_topic = {row["topic"]: row for row in rows(cluster, "lag", "g2")}
    assert (by_topic["Lag"]["lag"], by_topic["Lag"]["queues"]) == (2, 2)
    by_queue = [row for row in rows(cluster, "lag", "g2", "--queues") if row["topic"] == "Lag"]
    assert sorted(row["lag"] for row in by_queue) == [0, 2]
    assert rows(cluster, "offsets", "g2", "--topic", "Lag") == by_queue
    table = ok("group", "lag", "g2", *names)
    assert "Lag" in table
    used = next(row for row in by_queue if row["lag"])["queue"]

    def reset(to: str, *words: str) -> dict[int, tuple[int, int]]:
        done = rows(cluster, "reset", "g2", "--to", to, "--topic", "Lag", *words)
        return {row["queue"]: (row["before"], row["after"]) for row in done}

    planned = reset("earliest", "--dry-run")
    assert planned[used] == (4, 0)
    assert reset("earliest") == planned
    assert reset("latest", "--queue", str(used)) == {used: (0, 6)}
    (broker,) = cluster.brokers
    assert reset("3", "--queue", f"{broker}:{used}") == {used: (6, 3)}
    assert reset("2001-01-01")[used] == (3, 0)
    assert reset("2100-01-01T00:00:00+01:00")[used] == (0, 6)


@pytest.mark.differs_on_apache("it takes groups with less than no retry queues")
def test_mistakes_are_told(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "Small", "--queues", "1", *names)
    ok("group", "create", "g3", *names)
    there = ("reset", "g3", "--topic", "Small")
    assert "must be earliest, latest" in refused(cluster, 2, *there, "--to", "yesterday")
    assert "no message is that old" in refused(cluster, 2, *there, "--to", "1900-01-01")
    assert "offset 9 is outside" in refused(cluster, 2, *there, "--to", "9")
    assert "must be BROKER:ID" in refused(
        cluster, 2, *there, "--to", "latest", "--queue", "nowhere:0"
    )
    assert "is no queue" in refused(cluster, 2, *there, "--to", "latest", "--queue", "5")
    assert "there is no group" in refused(
        cluster, 1, "reset", "unknown", "--topic", "Small", "--to", "latest"
    )
    assert "Unknown" in refused(cluster, 1, "reset", "g3", "--topic", "Unknown", "--to", "latest")
    refused(cluster, 2, "reset", "g3", "--to", "latest")
    assert "retryQueueNums is -1" in refused(cluster, 1, "create", "g3", "--retry-queues", "-1")
    assert "bad name" in refused(cluster, 2, "create", "bad name")
    assert "name=value" in refused(cluster, 2, "create", "g3", "--attribute", "x")


@pytest.mark.differs_on_apache("it does not tell what each member subscribes to")
async def test_members_that_subscribe_differently_are_shown(cluster: Cluster) -> None:
    async def listener(_: object) -> None:
        """Takes everything."""

    def consumer(instance: ClientInstance, tags: str) -> PushConsumer:
        member = PushConsumer("g4", instance=instance, listener=listener)
        member.subscribe("Differ", tags)
        return member

    await asyncio.to_thread(ok, "topic", "create", "Differ", "--namesrv", cluster.namesrv)
    async with (
        ClientInstance(cluster.namesrv) as one,
        ClientInstance(cluster.namesrv) as two,
        consumer(one, "A"),
        consumer(two, "B"),
    ):
        shown = await asyncio.to_thread(rows, cluster, "show", "g4")
        table = await asyncio.to_thread(
            pocketmq, "group", "show", "g4", "--namesrv", cluster.namesrv
        )
        (listed,) = [
            r for r in await asyncio.to_thread(rows, cluster, "list") if r["group"] == "g4"
        ]
    assert {m["clientId"]: m["subscription"] for m in shown["members"]} == {
        one.client_id: "Differ A", two.client_id: "Differ B",
    }  # fmt: skip
    assert {m["language"] for m in shown["members"]} == {"PYTHON"}
    assert {c["subscription"] for c in shown["conflicts"]} == {"Differ A", "Differ B"}
    assert {s["topic"] for s in shown["subscriptions"]} == {"Differ", "%RETRY%g4"}
    assert "Conflicts" in table.stdout
    assert "subscribe differently" in table.stderr
    assert (listed["members"], listed["conflict"]) == (2, "yes")


@pytest.mark.process
def test_listings_are_shown_again_until_ctrl_c(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "Watched", "--queues", "1", *names)
    watching = subprocess.Popen(
        (*COMMAND, "topic", "stats", "Watched", "--watch", "0.05", "-o", "json", *names),
        stdout=subprocess.PIPE,
    )
    assert watching.stdout is not None
    assert sum(row["messages"] for row in json.loads(watching.stdout.readline())) == 0
    ok("send", "Watched", "x", *names)
    while not sum(row["messages"] for row in json.loads(watching.stdout.readline())):
        pass
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=TIMEOUT_S)
    assert watching.returncode == 130


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [("topic", "list"), ("group", "list"), ("group", "lag", "watched")], ids=" ".join
)
def test_a_watched_table_follows_the_one_before(cluster: Cluster, words: tuple[str, ...]) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("group", "create", "watched", *names)
    watching = subprocess.Popen(
        (*COMMAND, *words, "--watch", "0.05", *names), stdout=subprocess.PIPE, text=True
    )
    assert watching.stdout is not None
    head = watching.stdout.readline()
    while watching.stdout.readline() != head:
        pass
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=TIMEOUT_S)
    assert watching.returncode == 130
