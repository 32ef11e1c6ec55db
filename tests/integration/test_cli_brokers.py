"""`pocketmq cluster …` and `pocketmq broker …`, run as people run them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster, pocketmq_cluster

from pocketmq.runtime import VERSION


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with pocketmq_cluster(tmp_path_factory.mktemp("cli") / "data", "--brokers", "2") as running:
        yield running


def rows(cluster: Cluster, *words: str) -> Any:
    return json.loads(ok(*words, "-o", "json", "--namesrv", cluster.namesrv))


def refused(cluster: Cluster, code: int, *words: str) -> str:
    done = pocketmq(*words, "--namesrv", cluster.namesrv)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stderr


def test_brokers_are_listed_with_their_figures(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    ok("topic", "create", "Seen", "--queues", "1", *names)
    ok("produce", "Seen", "--sharding-key", "k", *names, stdin="a\nb\nc")
    listed = {row["broker"]: row for row in rows(cluster, "cluster", "list")}
    assert listed.keys() == cluster.brokers.keys() == {"broker-a", "broker-b"}
    assert {row["address"] for row in listed.values()} == set(cluster.brokers.values())
    assert sum(row["putTotal"] for row in listed.values()) == 3
    assert {row["role"] for row in listed.values()} == {"-"}  # they are of no broker set
    assert "say which broker is meant" in refused(cluster, 2, "broker", "show")
    (used,) = [row["broker"] for row in listed.values() if row["putTotal"]]
    figures = {r["figure"]: r["value"] for r in rows(cluster, "broker", "stats", "-b", used)}
    assert figures["msgPutTotalTodayNow"] == "3"
    assert len(figures["putTps"].split()) == 3
    windows = rows(cluster, "broker", "stats", "-b", used, "--topic", "Seen")
    assert {(r["window"], r["sum"]) for r in windows if r["statistic"] == "TOPIC_PUT_NUMS"} == {
        ("minute", 3), ("hour", 3), ("day", 3),
    }  # fmt: skip
    assert rows(cluster, "broker", "stats", "-b", used, "--topic", "Seen", "--group", "g") == []


def test_name_servers_are_listed_with_their_releases(cluster: Cluster) -> None:
    namesrv = f"{cluster.namesrv};127.0.0.1:1"
    up, down = json.loads(ok("cluster", "name-servers", "-o", "json", "--namesrv", namesrv))
    assert up == {
        "address": cluster.namesrv, "release": VERSION, "brokers": 2, "problem": None,
    }  # fmt: skip
    assert (down["address"], down["release"], down["brokers"]) == ("127.0.0.1:1", None, None)
    assert "127.0.0.1:1" in down["problem"]
    nobody = pocketmq("cluster", "name-servers", "--namesrv", "127.0.0.1:1")
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert nobody.stderr.startswith("pocketmq: cannot connect to 127.0.0.1:1")


def test_settings_are_shown_and_changed(cluster: Cluster) -> None:
    address = cluster.brokers["broker-b"]
    names = ("--namesrv", cluster.namesrv)
    ok("broker", "config", "set", "fileReservedTime=48", "traceOn=false", "-b", address, *names)
    shown = rows(cluster, "broker", "config", "get", "fileReservedTime", "-b", "broker-b")
    assert shown == [{"key": "fileReservedTime", "value": "48"}]
    other = {
        r["key"]: r["value"] for r in rows(cluster, "broker", "config", "get", "-b", "broker-a")
    }
    assert (other["fileReservedTime"], other["traceOn"]) == ("72", "true")
    ok("broker", "clean", "-b", "broker-b", *names)


def test_mistakes_are_told(cluster: Cluster) -> None:
    change = ("broker", "config", "set", "-b", "broker-a")
    assert "no setting 'nonsense'" in refused(cluster, 1, *change, "nonsense=1")
    assert "fileReservedTime is 0" in refused(cluster, 1, *change, "fileReservedTime=0")
    assert "configuration file" in refused(cluster, 1, *change, "listenPort=1")
    assert "name=value" in refused(cluster, 2, *change, "traceOn")
    assert "no setting nonsense" in refused(
        cluster, 2, "broker", "config", "get", "nonsense", "-b", "broker-a"
    )
    assert "say which broker is meant" in refused(cluster, 2, "broker", "stats")
    assert "known brokers: broker-a, broker-b" in refused(
        cluster, 2, "broker", "stats", "-b", "broker-z"
    )
    assert "--topic" in refused(cluster, 2, "broker", "stats", "-b", "broker-a", "--group", "g")
