"""Broker sets in a `LocalCluster`: what a test does to their members, and what clients see."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pocketmq.client import Message
from pocketmq.protocol.errors import UsageError
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

LEADER, FOLLOWER = "broker-a/1", "broker-a/2"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(replicas=2, topics={"Orders": 2}, grpc_port=-1) as cluster:
        yield cluster


def in_sync(cluster: Cluster) -> tuple[int, ...]:
    state = cluster.thread.call(cluster.core.sets.state, "broker-a")
    assert state is not None
    return state.in_sync


def leader(cluster: Cluster) -> str:
    return cluster.thread.call(cluster.core.sets.leader, "broker-a").name


def test_a_message_outlives_the_leader_that_took_it(cluster: Cluster) -> None:
    before = cluster.brokers
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"before"))
        producer.send(Message("Orders", b"later", delay_level=18))
        with cluster.faults.kill("broker-a"):
            producer.send(Message("Orders", b"after"))
            assert cluster.brokers != before
            assert in_sync(cluster) == (2,)
        assert in_sync(cluster) == (1, 2)
    cluster.clock.advance(hours=2)
    assert sorted(cluster.published("Orders", 3).bodies) == [b"after", b"before", b"later"]


def test_a_client_that_starts_without_a_leader_waits_for_one(cluster: Cluster) -> None:
    for topic in ("Orders", "New"):
        with cluster.faults.kill("broker-a"), cluster.producer() as producer:
            producer.send(Message(topic, b"first"))
        assert cluster.published(topic, 1).bodies == [b"first"]


def test_a_leader_that_hangs_is_replaced_and_follows_again(cluster: Cluster) -> None:
    with cluster.faults.pause("broker-a"), cluster.producer(send_timeout_ms=10_000) as producer:
        producer.send(Message("Orders", b"meanwhile"))
        assert leader(cluster) == FOLLOWER
    assert in_sync(cluster) == (1, 2)
    assert cluster.published("Orders", 1).bodies == [b"meanwhile"]


def test_members_that_do_not_reach_each_other_go_on_with_one(cluster: Cluster) -> None:
    with cluster.faults.partition(LEADER, FOLLOWER):
        with cluster.producer(send_timeout_ms=10_000) as producer:
            producer.send(Message("Orders", b"alone"))
        assert (leader(cluster), in_sync(cluster)) == (LEADER, (1,))
    assert in_sync(cluster) == (1, 2)


def test_a_member_without_name_server_and_arbiter_leads_on(cluster: Cluster) -> None:
    with cluster.faults.partition("broker-a"):
        assert cluster.core.slot_name_of(cluster.brokers["broker-a"]) == LEADER
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"found again"))


def test_senders_wait_for_a_slow_link(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"at once"))
        with cluster.faults.slow_link("broker-a", 40, FOLLOWER):
            began_s = cluster.core.machine.stopwatch()
            producer.send(Message("Orders", b"late"))
            assert cluster.core.machine.stopwatch() - began_s >= 0.08  # there and back


def test_without_the_arbiter_a_set_goes_on_and_nobody_is_elected(cluster: Cluster) -> None:
    with cluster.faults.arbiter_away(), cluster.producer() as producer:
        producer.send(Message("Orders", b"goes on"))
        with cluster.faults.kill("broker-a"):
            assert not cluster.brokers
            with pytest.raises(UsageError, match="no member of broker-a leads at this moment"):
                cluster.faults.kill("broker-a")
        assert in_sync(cluster) == (1, 2)
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"goes on"))


def test_other_sets_take_the_messages_while_one_has_no_leader() -> None:
    with (
        LocalCluster(brokers=2, replicas=2, topics={"Orders": 2}, grpc_port=-1) as cluster,
        cluster.producer(retry_times_when_send_failed=0) as producer,
    ):
        before = [producer.send(Message("Orders", b"before")) for _ in range(4)]
        assert {sent.queue.broker_name for sent in before} == {"broker-a", "broker-b"}
        with cluster.faults.arbiter_away(), cluster.faults.kill("broker-a"):
            sent = [producer.send(Message("Orders", b"meanwhile")) for _ in range(8)]
        assert {one.queue.broker_name for one in sent} == {"broker-b"}


def test_a_fault_of_requests_hits_whoever_leads(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        for times in (1, 2):
            with cluster.faults.send_status("FLUSH_SLAVE_TIMEOUT", broker="broker-a") as fault:
                producer.send(Message("Orders", b"noted"))
            assert (fault.count, fault.fired[0].server) == (1, f"broker-a/{times}")
            with cluster.faults.kill("broker-a"):
                producer.send(Message("Orders", b"by another"))


def test_faults_that_this_cluster_cannot_have(cluster: Cluster) -> None:
    with pytest.raises(UsageError, match="has no link to 'broker-b/1'; it replicates with "):
        cluster.faults.partition(LEADER, "broker-b/1")
    with LocalCluster(grpc_port=-1) as alone:
        with pytest.raises(UsageError, match="start the cluster with replicas=2"):
            alone.faults.slow_link("broker-a", 5, "broker-b")
        with pytest.raises(UsageError, match="no arbiter: start it with replicas=2"):
            alone.faults.arbiter_away()


async def test_sets_of_three_over_tls() -> None:
    async with LocalCluster(replicas=3, brokers=2, tls=True, topics={"Orders": 1}) as cluster:
        async with cluster.producer() as producer:
            for name in ("broker-a", "broker-b"):
                with cluster.faults.kill(name):
                    await producer.send(Message("Orders", name))
        assert sorted((await cluster.published("Orders", 2)).bodies) == [b"broker-a", b"broker-b"]
