"""The doctor on real clusters: each check on one that has the trouble, all on one that has none."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.here import pocketmq
from support.commands.process import ok_process
from support.interop.apache_servers import free_port
from support.store.stores import damage

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    ConsumeResult,
    Message,
    Producer,
    PushConsumer,
    SendFailedError,
)
from pocketmq.client.diagnosis.brokers import check_versions
from pocketmq.client.diagnosis.cluster_state import ClusterState, NamesrvState
from pocketmq.client.diagnosis.examination import CHECKS, Report, examine
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.runtime import VERSION
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import AsyncCluster
from pocketmq.transport.pool import ConnectionPool

NOBODY = "127.0.0.1:1"
HOUR_MS = 3_600_000


async def examined(namesrv: str, topic: str | None = None, lag_max: int = 100) -> Report:
    return await examine(namesrv.split(";"), SystemClock(), topic=topic, lag_max=lag_max)


async def only(namesrv: str, check: str, topic: str | None = None, lag_max: int = 100) -> Finding:
    """The one finding that there is, which must be of this check."""
    report = await examined(namesrv, topic, lag_max)
    (finding,) = report.findings
    assert finding.check == check
    assert report.healthy is (finding.severity is Severity.NOTE)
    return finding


async def send(cluster: AsyncCluster, topic: str, count: int, delay_ms: int = 0) -> None:
    async with cluster.producer() as producer:
        for number in range(count):
            await producer.send(Message(topic, b"%d" % number, delay_ms=delay_ms))


async def handled(messages: object) -> ConsumeResult:
    return ConsumeResult.SUCCESS


async def refused(messages: object) -> ConsumeResult:
    return ConsumeResult.RETRY


async def test_a_cluster_that_works_is_healthy() -> None:
    async with (
        LocalCluster(brokers=2, topics={"Orders": 2}, groups=["billing"]) as cluster,
        cluster.push_consumer("billing", listener=handled) as consumer,
    ):
        consumer.subscribe("Orders")
        await send(cluster, "Orders", 4)
        await cluster.drain("billing")
        report = await examined(cluster.namesrv, "Orders")
    assert report.findings == []
    assert (report.healthy, report.can_check) == (True, True)
    assert report.namesrv_releases == {cluster.namesrv: VERSION}
    assert (report.brokers, report.topics, report.groups) == (2, 2, 1)  # and the retry topic
    assert report.checks == list(CHECKS)


async def test_name_servers_of_different_releases() -> None:
    clock = SystemClock()
    for other in ("0.1.9", None):
        servers = [NamesrvState("a:1", release=VERSION), NamesrvState("b:1", release=other)]
        state = ClusterState(ConnectionPool(clock), clock, servers, [])
        (finding,) = await check_versions(state)
        assert finding.severity is Severity.NOTE
        told = f"PocketMQ {other}" if other else "it does not tell its release"
        assert f"a:1: PocketMQ {VERSION}; b:1: {told}" in finding.seen


async def test_a_name_server_that_is_down() -> None:
    async with LocalCluster() as cluster:
        finding = await only(f"{cluster.namesrv};{NOBODY}", "name servers")
    assert (finding.subject, finding.severity) == (NOBODY, Severity.ERROR)
    assert f"cannot connect to {NOBODY}" in finding.seen
    report = await examined(NOBODY)
    assert (report.can_check, [f.subject for f in report.findings]) == (False, [NOBODY])


async def test_a_name_server_without_brokers_and_one_without_a_broker() -> None:
    async with LocalCluster() as known, LocalCluster(brokers=1) as other:
        with known.faults.kill("broker-a"):
            # A second name server that the only broker does not register with.
            both = await examined(f"{known.namesrv};{other.namesrv}")
    missing = [f for f in both.findings if f.check == "registration"]
    assert known.namesrv in missing[0].seen
    assert other.namesrv in missing[0].remedy


async def test_no_broker_at_all() -> None:
    from pocketmq.namesrv import NameServer, NamesrvConfig

    async with NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1")) as names:
        finding = await only(names.address, "registration")
    assert finding.seen == "no broker is registered"
    assert "namesrvAddr" in finding.remedy


async def test_a_broker_that_tells_an_address_where_nobody_answers() -> None:
    """As in a container: it can be reached, but not where it says it is."""
    rules = [{"addr": f"127.0.0.1:{free_port()}"}]
    async with LocalCluster(broker_settings={"advertise": rules}) as cluster:
        finding = await only(cluster.namesrv, "broker addresses")
    assert finding.severity is Severity.ERROR
    assert rules[0]["addr"] in finding.seen
    assert "brokerIP1" in finding.remedy
    assert "advertise" in finding.remedy


async def test_a_broker_that_takes_connections_and_refuses_questions() -> None:
    async with LocalCluster() as cluster:
        with cluster.faults.answer("NO_PERMISSION", request="GET_BROKER_RUNTIME_INFO"):
            finding = await only(cluster.namesrv, "broker addresses")
    assert "connections are taken, and questions are not answered" in finding.seen
    assert "credentials" in finding.remedy


async def test_a_grpc_endpoint_that_is_not_reached(tmp_path: Path) -> None:
    port, here = free_port(), "127.0.0.1"
    namesrv = NameServer(NamesrvConfig(listen_port=0, bind_address=here))
    async with namesrv:
        config = BrokerConfig(
            listen_port=0,
            bind_address=here,
            grpc_server_port=port,
            namesrv_addr=namesrv.address,
            store_path_root_dir=str(tmp_path),
            disk_space_free_min=0,
        )
        async with Broker(config) as broker:
            assert (await examined(namesrv.address)).healthy
            assert broker.grpc_endpoint is not None
            await broker.grpc_endpoint.close()
            finding = await only(namesrv.address, "gRPC endpoints")
            assert f"{here}:{port} is not reached from here: " in finding.seen
            assert "grpcServerPort" in finding.remedy
            other = await asyncio.start_server(lambda _, writer: writer.close(), here, port)
            async with other:
                finding = await only(namesrv.address, "gRPC endpoints")
            assert "speaks no HTTP/2" in finding.seen


async def test_two_brokers_that_tell_the_same_address() -> None:
    async with LocalCluster(brokers=1) as first:
        rules = [{"addr": first.brokers["broker-a"]}]
        settings = {"broker_name": "broker-x", "advertise": rules}
        async with LocalCluster(broker_settings=settings) as second:
            finding = await only(second.namesrv, "broker addresses")
    assert finding.subject == "broker-x"
    assert "another broker answers, broker-a" in finding.seen


@pytest.mark.parametrize(("seconds", "word"), [(3600, "ahead of"), (-3600, "behind")])
async def test_a_clock_that_is_wrong(seconds: int, word: str) -> None:
    start_ms = SystemClock().now_ms() + seconds * 1000
    async with LocalCluster(start_ms=start_ms) as cluster:
        finding = await only(cluster.namesrv, "clocks")
    assert f"its clock is 60 min {word} the one here" in finding.seen
    assert "NTP" in finding.remedy


async def test_a_disk_without_room() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        with cluster.faults.disk_full("broker-a"):
            with pytest.raises(SendFailedError):
                await send(cluster, "Orders", 1)
            finding = await only(cluster.namesrv, "disks")
        assert finding.severity is Severity.ERROR
        assert "it refuses sends: no room left" in finding.seen
        async with cluster.admin() as admin:  # any disk is near these limits
            await admin.update_broker_config(
                cluster.brokers["broker-a"],
                {"diskSpaceWarningLevelRatio": 1.0, "diskSpaceFreeMin": 1 << 61},
            )
        finding = await only(cluster.namesrv, "disks")
    assert "sends are refused" in finding.seen or "refuses sends" in finding.seen


async def test_a_broker_that_is_read_only() -> None:
    async with LocalCluster(broker_settings={"broker_permission": 4}) as cluster:
        finding = await only(cluster.namesrv, "broker permissions")
    assert "refuses sends" in finding.seen
    assert "brokerPermission=6" in finding.remedy


async def test_a_topic_that_nobody_knows() -> None:
    async with LocalCluster(topics={"Orders": 1, "shop%Bills": 1}) as cluster:
        near = await only(cluster.namesrv, "topic routes", "Order")
        assert "did you mean Orders?" in near.seen
        assert "pocketmq topic create Order" in near.remedy
        inside = await only(cluster.namesrv, "topic routes", "Bills")
        assert "did you mean shop%Bills?" in inside.seen


async def test_a_topic_on_a_part_of_the_brokers() -> None:
    async with LocalCluster(brokers=2) as cluster:
        async with cluster.admin() as admin:
            await admin.create_topic("Half", 1, broker_addr=cluster.brokers["broker-a"])
        finding = await only(cluster.namesrv, "topic routes", "Half")
    assert (finding.severity, finding.seen) == (
        Severity.NOTE, "it is on 1 of 2 brokers, not on broker-b",
    )  # fmt: skip


async def test_topics_that_cannot_be_written_or_read() -> None:
    async with LocalCluster(topics={"ReadOnly": {"perm": 4}, "Wiped": 1}) as cluster:
        finding = await only(cluster.namesrv, "topic permissions")
        assert (finding.subject, "cannot be written (R--)" in finding.seen) == ("ReadOnly", True)
        async with cluster.admin() as admin:
            await admin.wipe_write_perm("broker-a")
        finding = await only(cluster.namesrv, "topic permissions", "Wiped")
    assert f"the name server {cluster.namesrv} keeps senders away from broker-a" in finding.seen
    assert "addWritePerm" in finding.remedy


async def test_queues_that_nobody_reads() -> None:
    counts = {"read_queue_nums": 2, "write_queue_nums": 4}
    async with LocalCluster(topics={"Wide": counts}) as cluster:
        finding = await only(cluster.namesrv, "queue counts")
    assert "what is sent to queues 2 to 3 reaches no consumer" in finding.seen
    assert finding.remedy == "pocketmq topic update Wide --read-queues 4"


async def test_messages_that_a_smaller_topic_left_behind() -> None:
    async with LocalCluster(topics={"Small": 2}) as cluster:
        await send(cluster, "Small", 4)
        async with cluster.admin() as admin:
            await admin.update_topic("Small", read_queues=1, write_queues=1)
        finding = await only(cluster.namesrv, "queue counts")
    assert "2 messages on broker-a are in queues that it no longer has (1)" in finding.seen
    assert "--read-queues 2" in finding.remedy


async def test_members_that_subscribe_differently() -> None:
    async with LocalCluster(topics={"Orders": 2}, groups=["mixed"]) as cluster:
        one = cluster.push_consumer("mixed", listener=handled, instance_name="one")
        two = cluster.push_consumer("mixed", listener=handled, instance_name="two")
        one.subscribe("Orders", "new")
        two.subscribe("Orders", "old")
        async with one, two:
            finding = await only(cluster.namesrv, "subscriptions")
    assert (finding.subject, finding.severity) == ("mixed", Severity.ERROR)
    assert "@one" in finding.seen
    assert "@two" in finding.seen


async def test_members_that_no_queue_is_left_for() -> None:
    async with LocalCluster(brokers=2, topics={"Orders": 1, "Bills": 2}, groups=["wide"]) as c:
        members = [
            c.push_consumer("wide", listener=handled, instance_name=str(number))
            for number in range(3)
        ]
        for member in members:
            member.subscribe("Orders")
        async with members[0], members[1]:
            assert (await examined(c.namesrv)).findings == []  # a queue for each
            async with members[2]:
                finding = await only(c.namesrv, "idle members")
                assert (await examined(c.namesrv, "Bills")).findings == []
        assert (finding.subject, finding.severity) == ("wide", Severity.NOTE)
        assert (
            "3 members, and Orders has 2 queues: at least 1 of them are given none" in finding.seen
        )
        broadcasts = [
            c.push_consumer("all", listener=handled, message_model="BROADCASTING", instance_name=n)
            for n in ("one", "two", "three")
        ]
        for member in broadcasts:
            member.subscribe("Orders")
        async with broadcasts[0], broadcasts[1], broadcasts[2]:
            assert (await examined(c.namesrv)).findings == []


def damage_header(data: Path, topic: str) -> None:
    """Makes a queue of a stopped cluster one that cannot be served."""
    (log,) = data.glob(f"*/queues/{topic}/0/*.log")
    damage(log, 30)


async def test_a_queue_that_is_damaged_hides_no_other_trouble(tmp_path: Path) -> None:
    topics = {"Broken": 1, "Wide": {"read_queue_nums": 1, "write_queue_nums": 2}}
    async with LocalCluster(data=tmp_path, topics=topics) as cluster:
        await send(cluster, "Broken", 1)
    damage_header(tmp_path, "Broken")
    async with LocalCluster(data=tmp_path) as cluster:
        report = await examined(cluster.namesrv)
    damaged, other = report.findings
    assert (damaged.check, damaged.severity) == ("damaged queues", Severity.ERROR)
    assert damaged.seen.startswith("queue 0 of Broken is not served: ")
    assert "pocketmq store repair" in damaged.remedy
    assert (other.check, other.subject) == ("queue counts", "Wide")


async def test_more_topics_and_groups_than_are_looked_at_one_by_one() -> None:
    groups = ["billing", "shipping", "shop"]
    async with LocalCluster(topics={"A": 1, "B": 2, "C": 1}, groups=groups) as cluster:
        await send(cluster, "B", 4)
        async with cluster.admin() as admin:
            await admin.update_topic("B", read_queues=1, write_queues=1)
        report = await examine([cluster.namesrv], SystemClock(), count_max=1)
        near = await examine([cluster.namesrv], SystemClock(), topic="B", count_max=1)
    assert report.healthy
    assert {(f.check, f.seen) for f in report.findings} == {
        (check, f"there are 3 {what}: only the first 1 in the order of their names were looked at, "
        f"up to {last}")
        for check, what, last in (
            ("queue counts", "topics", "A"),
            ("subscriptions", "groups", "billing"),
            ("idle members", "groups", "billing"),
            ("lag", "groups", "billing"),
        )
    }  # fmt: skip
    assert [f.check for f in near.findings] == ["queue counts"]
    assert "2 messages on broker-a are in queues that it no longer has (1)" in near.findings[0].seen


async def test_consumers_that_are_gone_behind_stuck_or_forbidden() -> None:
    release = asyncio.Event()
    begun = asyncio.Event()

    async def slow(messages: object) -> ConsumeResult:
        begun.set()
        await release.wait()
        return ConsumeResult.SUCCESS

    async with LocalCluster(topics={"Orders": 1}, groups=["billing"]) as cluster:
        async with cluster.push_consumer("billing", listener=handled) as consumer:
            consumer.subscribe("Orders")
            await send(cluster, "Orders", 1)
            await cluster.drain("billing")
        await send(cluster, "Orders", 3)
        gone = await only(cluster.namesrv, "lag")
        assert "no consumer of the group is connected, and 3 messages wait" in gone.seen
        assert (await examined(cluster.namesrv, "OtherTopic")).findings[-1].check != "lag"
        async with cluster.push_consumer("billing", listener=slow) as consumer:
            consumer.subscribe("Orders")
            await begun.wait()
            behind = await only(cluster.namesrv, "lag", lag_max=2)
            assert "it is 3 messages behind on broker-a in Orders" in behind.seen
            assert (await examined(cluster.namesrv, lag_max=3)).findings == []
            release.set()
        async with cluster.admin() as admin:
            await admin.update_group("billing", consume_enable=False)
        forbidden = await only(cluster.namesrv, "lag")
    assert "pocketmq group update billing --consume" in forbidden.remedy


async def test_a_queue_whose_newest_message_has_waited_long() -> None:
    begun, release = asyncio.Event(), asyncio.Event()

    async def hangs(messages: object) -> ConsumeResult:
        begun.set()
        await release.wait()
        return ConsumeResult.SUCCESS

    async with (
        LocalCluster(topics={"Orders": 1}, start_ms=SystemClock().now_ms() - HOUR_MS) as cluster,
        # Not made by the cluster, which would wait for its listener before it sets the clock.
        Producer("shop", cluster.namesrv) as producer,
    ):
        consumer = PushConsumer("hung", cluster.namesrv, listener=hangs)
        consumer.subscribe("Orders")
        async with consumer:
            await producer.send(Message("Orders", b"x"))
            await begun.wait()
            await cluster.clock.advance(hours=1)
            finding = await only(cluster.namesrv, "lag")
            release.set()
    assert "queues Orders/broker-a/0 are stuck" in finding.seen


@pytest.mark.process
async def test_dead_letters() -> None:
    async with LocalCluster(topics={"Orders": 1}, groups={"billing": {"retry_max_times": 0}}) as c:
        async with c.push_consumer("billing", listener=refused) as consumer:
            consumer.subscribe("Orders")
            await send(c, "Orders", 2)
            await c.published("%DLQ%billing", 2)
            await c.drain("billing")
            finding = await only(c.namesrv, "dead letters")
        assert "2 messages were given up" in finding.seen
        look = re.search(r"look at them: pocketmq (.*?);", finding.remedy)
        assert look is not None
        words = [*shlex.split(look[1]), "--namesrv", c.namesrv]
        assert len((await asyncio.to_thread(ok_process, *words)).splitlines()) == 2


async def test_timers_that_are_late() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        await send(cluster, "Orders", 1, delay_ms=60_000)
        with cluster.faults.disk_full("broker-a"):
            await cluster.clock.advance(minutes=5)
            report = await examined(cluster.namesrv)
        (finding,) = [f for f in report.findings if f.check == "timers"]
    assert "its timer messages are 24" in finding.seen


async def test_what_cannot_be_checked_is_said_and_hides_nothing_else() -> None:
    async with LocalCluster(groups=["billing", "shipping"]) as cluster:
        async with cluster.admin() as admin:
            await admin.update_group("shipping", consume_enable=False)
        with cluster.faults.answer("SYSTEM_ERROR", request="GET_CONSUME_STATS", group="billing"):
            report = await examined(cluster.namesrv)
    unknown, forbidden = report.findings
    assert (unknown.check, unknown.subject) == ("lag", "billing")
    assert "this could not be checked" in unknown.seen
    assert (forbidden.check, forbidden.subject) == ("lag", "shipping")


@pytest.fixture(scope="module")
def namesrv() -> Iterator[str]:
    with LocalCluster(topics={"Fine": 1}) as cluster:
        yield cluster.namesrv


def test_the_command_tells_by_text_json_and_exit_code(namesrv: str) -> None:
    fine = pocketmq("doctor", "Fine", "--namesrv", namesrv)
    assert (fine.returncode, fine.stdout[:7]) == (0, "healthy")
    found = pocketmq("doctor", "Fien", "-o", "json", "--namesrv", namesrv)
    assert found.returncode == 1
    report = json.loads(found.stdout)
    assert (report["healthy"], report["origin"]) == (False, "--namesrv")
    assert [f["check"] for f in report["findings"]] == ["topic routes"]
    text = pocketmq("doctor", "Fien", "--namesrv", namesrv)
    assert text.stdout.startswith("error: topic routes: Fien: no name server knows the topic")
    assert "\n    remedy: pocketmq topic create Fien" in text.stdout
    nowhere = pocketmq("doctor", "--namesrv", NOBODY)
    assert nowhere.returncode == 2
    assert "nothing else could be checked" in nowhere.stderr
