"""What the doctor finds in broker sets whose members or arbiter are away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pocketmq.client.diagnosis.broker_sets import SETS
from pocketmq.client.diagnosis.examination import examine
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

TRIES_MAX = 200

SETTINGS = {"min_in_sync_replicas": 2}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(replicas=2, grpc_port=-1, broker_settings=SETTINGS) as cluster:
        yield cluster


async def found(cluster: Cluster, count: int) -> list[Finding]:
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


async def test_without_leader_and_arbiter_both_are_said(cluster: Cluster) -> None:
    with cluster.faults.arbiter_away(), cluster.faults.kill("broker-a"):
        leaderless, away = await found(cluster, 2)
        assert (leaderless.severity, away.severity) == (Severity.ERROR, Severity.WARNING)
        assert "no member leads" in leaderless.seen
        assert "broker elect --unclean" in leaderless.remedy
        assert "the arbiter is away: the arbiter at 127.0.0.1:" in away.seen
