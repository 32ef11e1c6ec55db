"""Apache's mqadmin on a broker set of two, whose members are processes of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from support.commands.here import ok, pocketmq
from support.interop.clusters import Cluster, broker_set
from support.interop.java_probe import JavaProbe

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

NAME, CLUSTER = "broker-a", "DefaultCluster"
TRIES_MAX = 200
DEADLINE_S = 300

CALLS = (
    "haStatus -b FIRST",
    "haStatus -b SECOND",
    f"haStatus -c {CLUSTER}",
    f"getSyncStateSet -a NAMESRV -b {NAME}",
    f"getSyncStateSet -a SECOND -c {CLUSTER}",
    f"getBrokerEpoch -b {NAME}",
    "getControllerMetaData -a NAMESRV",
    "getControllerMetaData -a SECOND",
    "getControllerConfig -a FIRST;NAMESRV",
    "updateControllerConfig -a FIRST -k leaderLease -v 1",
    f"cleanBrokerMetadata -a NAMESRV -bn {NAME} -c {CLUSTER} -b 2",
    "clusterList",
    "brokerStatus -b FIRST",
    "brokerStatus -b SECOND",
    f"electMaster -a NAMESRV -b 9 -bn {NAME} -c {CLUSTER}",
    f"electMaster -a NAMESRV -b 2 -bn {NAME} -c {CLUSTER}",
)
"""In their order; FIRST leads until the last one."""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with broker_set(tmp_path_factory.mktemp("set"), slaveReadEnable=True) as running:
        yield running


def lead(pair: Cluster, member: int) -> None:
    """Has a member lead as soon as it is in sync."""
    for _ in range(TRIES_MAX):
        done = pocketmq("broker", "switch", "--to", str(member), "--namesrv", pair.namesrv)
        if not done.returncode:
            return
    raise AssertionError(done.stderr)


@pytest.fixture(scope="module")
def said(probe: JavaProbe, pair: Cluster) -> dict[str, Any]:
    """What mqadmin printed, and the errors that it ended with, by the words of the call."""
    if not probe.is_5:
        pytest.skip("the sub-commands are those of 5.5.0")
    lead(pair, 2)
    lead(pair, 1)
    ok("topic", "create", "Orders", "--queues", "1", "--namesrv", pair.namesrv)
    ok("produce", "Orders", "--namesrv", pair.namesrv, stdin="one\ntwo")
    lead(pair, 2)
    lead(pair, 1)  # both have epochs with records, and are in sync
    names = {"FIRST": pair.brokers["1"], "SECOND": pair.brokers["2"], "NAMESRV": pair.namesrv}

    def value(word: str) -> str:
        return ";".join(names.get(part, part) for part in word.split(";"))

    words = [[*map(value, call.split()), "-n", pair.namesrv] for call in CALLS]
    answers = probe.run("mqadmin", calls=json.dumps(words), deadline_s=DEADLINE_S)
    return dict(zip(CALLS, answers, strict=True))


def fields(printed: str) -> dict[str, str]:
    """Lines such as ``#SlaveNum<tab>1``, by name."""
    return dict(re.findall(r"^#(\w[^\t\n]*)\t(.*)$", printed, re.MULTILINE))


def test_ha_status_shows_both_sides(said: dict[str, Any], pair: Cluster) -> None:
    leader = said["haStatus -b FIRST"]["printed"]
    assert fields(leader)["MasterAddr"] == pair.brokers["1"]
    assert (fields(leader)["SlaveNum"], fields(leader)["InSyncSlaveNum"]) == ("1", "1")
    (row,) = (line.split() for line in leader.splitlines() if line.startswith("127.0.0.1"))
    size = int(fields(leader)["MasterCommitLogMaxOffset"])
    assert (row[0], row[2], row[4]) == (pair.brokers["2"], "0", "OK")
    assert int(row[1]) == int(row[5]) == size > 0
    follower = fields(said["haStatus -b SECOND"]["printed"])
    assert follower["MasterAddr"] == pair.brokers["1"]
    assert int(follower["CommitLogMaxOffset"]) == size
    assert pair.brokers["1"] in said[f"haStatus -c {CLUSTER}"]["printed"]


@pytest.mark.parametrize(
    "call", [f"getSyncStateSet -a NAMESRV -b {NAME}", f"getSyncStateSet -a SECOND -c {CLUSTER}"]
)
def test_the_in_sync_set_is_told_by_whomever_is_asked(
    said: dict[str, Any], pair: Cluster, call: str
) -> None:
    printed = said[call]["printed"]
    shown = fields(printed)
    assert (shown["brokerName"], shown["MasterBrokerId"]) == (NAME, "1")
    assert (shown["MasterAddr"], shown["SyncStateSetNums"]) == (pair.brokers["1"], "2")
    assert int(shown["MasterEpoch"]) >= 5
    assert printed.count("\nInSyncReplica:") == 2
    assert printed.count("alive=true") == 2


def test_both_members_tell_the_same_epochs(said: dict[str, Any], pair: Cluster) -> None:
    printed = said[f"getBrokerEpoch -b {NAME}"]["printed"]
    parts = printed.split("#clusterName")[1:]
    told = {
        re.search(r"#brokerAddr\t(\S+)", part)[1]: re.findall(r"#Epoch: (.+)", part)  # type: ignore[index]
        for part in parts
    }
    assert told.keys() == set(pair.brokers.values())
    first, second = told.values()
    assert first == second != []


def test_the_controller_is_a_member(said: dict[str, Any], pair: Cluster) -> None:
    shown = fields(said["getControllerMetaData -a NAMESRV"]["printed"])
    assert shown["ControllerLeaderAddress"] == pair.brokers["1"]
    shown = fields(said["getControllerMetaData -a SECOND"]["printed"])
    assert shown["ControllerLeaderAddress"] == pair.brokers["2"]
    settings = said["getControllerConfig -a FIRST;NAMESRV"]["printed"]
    assert re.search(r"leaderLease +=  5000", settings)
    assert re.search(r"arbiterPath +=  \S+", settings)
    assert "CODE: 16" in said["updateControllerConfig -a FIRST -k leaderLease -v 1"]["errors"]
    living = said[f"cleanBrokerMetadata -a NAMESRV -bn {NAME} -c {CLUSTER} -b 2"]["errors"]
    assert "members [2] of broker-a are alive" in living


def test_both_members_have_a_row_and_figures(said: dict[str, Any], pair: Cluster) -> None:
    rows = [line.split() for line in said["clusterList"]["printed"].splitlines()]
    found = {row[2]: row[3] for row in rows if row[:2] == [CLUSTER, NAME]}
    assert found == {"0": pair.brokers["1"], "2": pair.brokers["2"]}
    for member in ("FIRST", "SECOND"):
        status = said[f"brokerStatus -b {member}"]["printed"]
        assert re.search(r"brokerVersionDesc *: V5_5_0", status)


def test_elect_master_switches(said: dict[str, Any], pair: Cluster) -> None:
    refused = said[f"electMaster -a NAMESRV -b 9 -bn {NAME} -c {CLUSTER}"]["errors"]
    assert "CODE: 2012" in refused
    assert "is not in sync" in refused
    elected = said[f"electMaster -a NAMESRV -b 2 -bn {NAME} -c {CLUSTER}"]
    assert elected["errors"] == ""
    shown = fields(elected["printed"])
    assert shown["BrokerMasterAddr"] == pair.brokers["2"]
    for _ in range(TRIES_MAX):
        rows = json.loads(ok("cluster", "list", "-o", "json", "--namesrv", pair.namesrv))
        leaders = [row["address"] for row in rows if row["brokerId"] == 0]
        if leaders == [pair.brokers["2"]]:
            return
    raise AssertionError(rows)
