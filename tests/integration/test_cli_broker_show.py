"""What `pocketmq cluster list` and `pocketmq broker show` tell of broker sets with faults."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.commands.here import ok, pocketmq

from pocketmq.client import Message
from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

NOBODY = "127.0.0.1:1"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(replicas=2, topics={"Orders": 1}, grpc_port=-1) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def lone() -> Iterator[Cluster]:
    with LocalCluster(grpc_port=-1) as cluster:
        yield cluster


def told(cluster: Cluster, *words: str) -> Any:
    return json.loads(ok(*words, "-o", "json", "--namesrv", cluster.namesrv))


def listed(cluster: Cluster) -> dict[int, tuple[Any, ...]]:
    rows = told(cluster, "cluster", "list")
    return {row["brokerId"]: (row["role"], row["epoch"], row["inSync"], row["lag"]) for row in rows}


def shown(cluster: Cluster, *words: str) -> Any:
    return told(cluster, "broker", "show", *words)


def until(look: Callable[[], Any], is_so: Callable[[Any], object]) -> Any:
    """Looks until the set has noticed a fault."""
    while not is_so(seen := look()):
        pass
    return seen


def test_a_whole_set(cluster: Cluster) -> None:
    assert listed(cluster) == {0: ("leader", 1, True, 0), 2: ("follower", 1, True, 0)}
    view = shown(cluster)
    assert view.keys() == {
        "cluster", "broker", "isSet", "leader", "epoch", "inSync", "changedMs", "reason",
        "arbiter", "members",
    }  # fmt: skip
    assert (view["broker"], view["isSet"], view["leader"], view["epoch"]) == (
        "broker-a",
        True,
        1,
        1,
    )
    assert (view["inSync"], view["reason"], view["arbiter"]) == (
        [1, 2],
        "the set is new",
        "answers",
    )
    assert [
        (m["member"], m["role"], m["inSync"], m["lag"], m["told"]) for m in view["members"]
    ] == [
        (1, "leader", True, 0, ""),
        (2, "follower", True, 0, ""),
    ]
    by_address = shown(cluster, "-b", view["members"][1]["address"])
    assert by_address == view


def test_tables_are_for_people(cluster: Cluster) -> None:
    names = ("--namesrv", cluster.namesrv)
    table = ok("cluster", "list", *names)
    assert [line.split()[4:8] for line in table.splitlines()] == [
        ["role", "epoch", "inSync", "lag"],
        ["leader", "1", "yes", "0"],
        ["follower", "1", "yes", "0"],
    ]
    lines = ok("broker", "show", *names).splitlines()
    assert lines[0] == "broker set   broker-a of DefaultCluster"
    assert lines[1] == f"leader       member 1 at {cluster.brokers['broker-a']}"
    assert lines[3] == "in sync      1, 2"
    assert lines[4].endswith("Z: the set is new")


def test_a_follower_that_is_down(cluster: Cluster) -> None:
    with cluster.faults.kill("broker-a/2"), cluster.producer() as producer:
        producer.send(Message("Orders", b"alone"))
        view = until(lambda: shown(cluster), lambda view: view["inSync"] == [1])
        leader, gone = view["members"]
        assert (leader["role"], leader["inSync"]) == ("leader", True)
        assert (gone["role"], gone["inSync"], gone["lag"]) == ("absent", False, None)
        assert gone["address"] in gone["told"]
        assert listed(cluster) == {0: ("leader", 1, True, 0)}


def test_a_member_that_is_registered_and_does_not_answer(cluster: Cluster) -> None:
    figures = {"request": "GET_BROKER_RUNTIME_INFO", "broker": "broker-a/2"}
    with cluster.faults.close_connection(**figures):
        done = pocketmq("cluster", "list", "-o", "json", "--namesrv", cluster.namesrv)
    leader, silent = json.loads(done.stdout)
    assert (leader["role"], leader["putTotal"]) == ("leader", 0)
    assert (silent["role"], silent["inSync"], silent["putTotal"]) == (None, True, None)
    assert f"broker-a at {silent['address']} does not answer: " in done.stderr


def test_a_leader_that_has_died(cluster: Cluster) -> None:
    with cluster.faults.kill("broker-a"):
        cluster.thread.run(cluster.core.sets.until_whole("broker-a"))
        view = shown(cluster)
        assert (view["leader"], view["epoch"], view["inSync"]) == (2, 2, [2])
        assert view["reason"].startswith("member 1 is gone: ")
        assert view["changedMs"] > 0
        assert [m["role"] for m in view["members"]] == ["absent", "leader"]
    assert until(lambda: listed(cluster), lambda rows: 1 in rows)[1][:3] == ("follower", 2, True)


def test_members_that_do_not_reach_each_other(cluster: Cluster) -> None:
    with cluster.faults.partition("broker-a/1", "broker-a/2"):
        with cluster.producer(send_timeout_ms=10_000) as producer:
            producer.send(Message("Orders", b"alone"))
        view = until(lambda: shown(cluster), lambda view: view["members"][1]["told"])
        away = view["members"][1]
        assert (away["role"], away["inSync"], away["lag"] > 0) == ("waiting", False, True)
        assert listed(cluster)[2] == ("follower", 1, False, None)


def test_a_set_whose_arbiter_is_away(cluster: Cluster) -> None:
    with cluster.faults.arbiter_away():
        view = shown(cluster)
        assert (view["leader"], view["epoch"], view["inSync"]) == (1, 1, [1, 2])
        assert (view["arbiter"], view["changedMs"], view["reason"]) == ("away", None, None)
        assert "the arbiter at " in view["members"][0]["told"]
        table = ok("broker", "show", "--namesrv", cluster.namesrv)
        assert "last switch  unknown: the arbiter tells it" in table
        with cluster.faults.kill("broker-a"):
            view = until(lambda: shown(cluster), lambda view: view["leader"] is None)
            assert [m["role"] for m in view["members"]] == ["waiting"]
            table = ok("broker", "show", "--namesrv", cluster.namesrv)
            assert "leader       no member leads" in table


def test_a_caller_that_may_not_ask_gets_the_other_columns(cluster: Cluster) -> None:
    with cluster.faults.answer("NO_PERMISSION", request="CONTROLLER_GET_SYNC_STATE_DATA"):
        assert listed(cluster) == {0: (None,) * 4, 2: (None,) * 4}
    with cluster.faults.answer("NO_PERMISSION", request="GET_BROKER_HA_STATUS"):
        assert listed(cluster)[2] == ("follower", 1, True, None)
    with cluster.faults.answer("NO_PERMISSION", request="DESCRIBE_MEMBER"):
        done = pocketmq("broker", "show", "--namesrv", cluster.namesrv)
    assert done.returncode == 1
    assert "no member of broker-a answers: " in done.stderr


def test_a_broker_of_no_set(lone: Cluster) -> None:
    assert listed(lone) == {0: ("-", None, None, None)}
    address = lone.brokers["broker-a"]
    view = shown(lone)
    assert (view["broker"], view["isSet"]) == ("broker-a", False)
    (row,) = view["members"]
    assert (row["brokerId"], row["address"], row["version"]) == (0, address, "V5_5_0")
    assert row["uptime"].startswith("0 days")
    assert 0 <= row["diskRatio"] <= 1
    assert shown(lone, "-b", address) == view
    assert address in ok("broker", "show", "-b", "broker-a", "--namesrv", lone.namesrv)


def test_an_address_is_enough_without_a_name_server(cluster: Cluster, lone: Cluster) -> None:
    for each in (cluster, lone):
        address = each.brokers["broker-a"]
        done = pocketmq("broker", "show", "-b", address, "-o", "json", "--namesrv", NOBODY)
        assert done.returncode == 0, done.stderr
        assert address in {row["address"] for row in json.loads(done.stdout)["members"]}
        assert "no name server tells of other members" in done.stderr


def test_a_leader_that_clients_reach_at_another_address(cluster: Cluster) -> None:
    leader = cluster.thread.call(cluster.core.sets.leader, "broker-a")
    rule = AdvertiseRule(addr=f"localhost:{leader.address.rpartition(':')[2]}")
    cluster.thread.run(leader.advertise([rule]))
    assert told(cluster, "cluster", "list")[0]["address"] == rule.addr
    assert listed(cluster) == {0: ("leader", 1, True, 0), 2: ("follower", 1, True, 0)}
    for words in ((), ("-b", rule.addr)):
        assert [m["role"] for m in shown(cluster, *words)["members"]] == ["leader", "follower"]
    assert "healthy: 2 brokers" in ok("doctor", "--namesrv", cluster.namesrv)


def test_mistakes_are_told(lone: Cluster) -> None:
    done = pocketmq("broker", "show", "-b", "broker-z", "--namesrv", lone.namesrv)
    assert done.returncode == 2
    assert "there is no broker broker-z; known brokers: broker-a" in done.stderr
    done = pocketmq("broker", "show", "-b", NOBODY, "--namesrv", lone.namesrv)
    assert done.returncode == 1
    assert NOBODY in done.stderr
