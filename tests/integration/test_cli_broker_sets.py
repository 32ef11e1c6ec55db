"""`pocketmq` commands on a broker set whose servers are processes of their own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster, broker_set

from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.testing import LocalCluster


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with broker_set(tmp_path_factory.mktemp("set")) as running:
        yield running


def listed(pair: Cluster) -> dict[int, Any]:
    rows = json.loads(ok("cluster", "list", "-o", "json", "--namesrv", pair.namesrv))
    return {row["brokerId"]: row for row in rows}


def switched(pair: Cluster) -> str:
    """Switches as soon as another member is in sync."""
    while (done := pocketmq("broker", "switch", "--namesrv", pair.namesrv)).returncode:
        assert "Traceback" not in done.stderr
    return done.stderr


def test_a_set_that_has_no_messages_yet(pair: Cluster) -> None:
    names = ("--namesrv", pair.namesrv)
    while (shown := json.loads(ok("broker", "show", "-o", "json", *names)))["inSync"] != [1, 2]:
        pass
    assert (shown["broker"], shown["leader"], shown["epoch"]) == ("broker-a", 1, 1)
    assert shown["reason"] == "the set is new"
    columns = ("member", "role", "inSync", "lag")
    assert [tuple(row[column] for column in columns) for row in shown["members"]] == [
        (1, "leader", True, 0),
        (2, "follower", True, 0),
    ]
    rows = {
        number: (row["role"], row["epoch"], row["inSync"], row["lag"])
        for number, row in listed(pair).items()
    }
    assert rows == {0: ("leader", 1, True, 0), 2: ("follower", 1, True, 0)}
    table = ok("broker", "show", *names)
    assert "follower" in table
    assert "healthy: 2 brokers" in ok("doctor", *names)


def test_another_member_leads_and_has_the_messages(pair: Cluster) -> None:
    names = ("--namesrv", pair.namesrv)
    assert "member 2 leads now" in switched(pair)
    assert "member 1 leads now" in switched(pair)
    ok("topic", "create", "Orders", "--queues", "1", *names)
    ok("produce", "Orders", *names, stdin="one\ntwo")
    assert "member 2 leads now" in switched(pair)
    while (rows := listed(pair)).keys() != {0, 1}:
        pass
    assert rows[0]["address"] == pair.brokers["2"]
    took = (rows[1]["address"], rows[1]["putTotal"], rows[0]["putTotal"])
    assert took == (pair.brokers["1"], 2, 0)  # while it led
    shown = json.loads(ok("broker", "show", "-o", "json", *names))
    assert shown["leader"] == 2
    assert "somebody asked for it" in shown["reason"]
    assert rows[0]["epoch"] == shown["epoch"] == 4
    consumed = ok("consume", "Orders", "-c", "2", "--from-beginning", *names)
    assert "one" in consumed
    assert "two" in consumed


def test_a_switch_to_a_member_that_is_not_there_is_refused(pair: Cluster) -> None:
    done = pocketmq("broker", "switch", "--to", "9", "--namesrv", pair.namesrv)
    assert done.returncode
    assert "is not in sync" in done.stderr


def test_a_leader_that_clients_reach_at_another_address() -> None:
    with LocalCluster(replicas=2, grpc_port=-1) as cluster:
        leader = cluster.thread.call(cluster.core.sets.leader, "broker-a")
        rule = AdvertiseRule(addr=f"localhost:{leader.address.rpartition(':')[2]}")
        cluster.thread.run(leader.advertise([rule]))
        rows = json.loads(ok("cluster", "list", "-o", "json", "--namesrv", cluster.namesrv))
    assert [row["address"] == rule.addr for row in rows] == [True, False]
    assert [row["role"] for row in rows] == ["leader", "follower"]
