"""What the doctor finds in broker sets whose members or arbiter are away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pocketmq.client.diagnosis.broker_sets import SETS
from pocketmq.client.diagnosis.examination import examine
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import AsyncCluster, Cluster

TRIES_MAX = 200

SETTINGS = {"min_in_sync_replicas": 2}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(replicas=2, grpc_port=-1, broker_settings=SETTINGS) as cluster:
        yield cluster


async def found(cluster: Cluster | AsyncCluster, count: int) -> list[Finding]:
    """What the doctor finds as soon as the leader knows who is lost."""
    for _ in range(TRIES_MAX):
        report = await examine([cluster.namesrv], SystemClock())
        findings = [finding for finding in report.findings if finding.check == SETS]
        if len(findings) == count:
            return findings
    raise AssertionError(findings)


async def test_a_whole_set_is_healthy(cluster: Cluster) -> None:
    assert await found(cluster, 0) == []


async def test_a_follower_that_is_down_is_named_and_what_follows_from_it(cluster: Cluster) -> None:
    with cluster.faults.kill("broker-a/2"):
        refused, absent = await found(cluster, 2)
        assert (refused.severity, absent.severity) == (Severity.ERROR, Severity.WARNING)
        assert "minInSyncReplicas is 2: sends are refused" in refused.seen
        assert absent.subject.startswith("member 2 of broker-a at 127.0.0.1:")
        assert "it is not in sync, so that it cannot take over: it does not answer" in absent.seen


async def test_one_member_that_is_left_is_warned_of() -> None:
    async with LocalCluster(replicas=2, grpc_port=-1) as cluster:
        with cluster.faults.kill("broker-a/2"):
            left, absent = await found(cluster, 2)
    assert (left.subject, left.severity) == ("broker-a", Severity.WARNING)
    assert "of members 1, 2 only 1 is in sync" in left.seen
    assert "start it" in absent.remedy


async def test_a_set_whose_arbiter_is_away_goes_on_and_says_so(cluster: Cluster) -> None:
    with cluster.faults.arbiter_away():
        (away,) = await found(cluster, 1)
    assert (away.subject, away.severity) == ("broker-a", Severity.WARNING)
    assert "until it is back no other member can be elected" in away.seen
    assert "arbiterPath" in away.remedy


async def test_members_that_refuse_to_describe_themselves_are_no_fault(cluster: Cluster) -> None:
    with cluster.faults.answer("NO_PERMISSION", request="DESCRIBE_MEMBER"):
        (unknown,) = await found(cluster, 1)
    assert "this could not be checked" in unknown.seen


async def test_without_leader_and_arbiter_both_are_said(cluster: Cluster) -> None:
    with cluster.faults.arbiter_away(), cluster.faults.kill("broker-a"):
        leaderless, away = await found(cluster, 2)
        assert (leaderless.severity, away.severity) == (Severity.ERROR, Severity.WARNING)
        assert "no member leads" in leaderless.seen
        assert "have the arbiter answer" in leaderless.remedy
        assert "the arbiter is away: the arbiter at 127.0.0.1:" in away.seen
