"""Faults on order: each does what it says, to whom it says, as often as it says."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from support.brokers.control_parts import Controlled, controlled

from pocketmq.client import (
    ConsumeResult,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendFailedError,
    SendStatus,
)
from pocketmq.client.blocking import Producer
from pocketmq.protocol.errors import (
    ConfigError,
    IllegalMessageError,
    PocketMQError,
    ResponseError,
    UsageError,
)
from pocketmq.testing import Cluster, FaultWarning, LocalCluster
from pocketmq.testing.clusters import Clusters

KINDS: dict[str, dict[str, Any]] = {
    "answer": {"code": "SYSTEM_BUSY"},
    "delay": {"milliseconds": 3_600_000},
    "drop_request": {"request": "SEND_MESSAGE"},
    "drop_reply": {"request": "SEND_MESSAGE"},
    "close_connection": {},
    "send_status": {"status": "FLUSH_DISK_TIMEOUT"},
    "pause": {"broker": "broker-a"},
    "kill": {"broker": "broker-a"},
    "partition": {"broker": "broker-a"},
    "disk_full": {},
}
"""Each kind of fault with arguments by which a send fails or is not SEND_OK, except partition."""


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 1, "Bills": 1}, groups=["billing"]) as cluster:
        yield cluster
        cluster.core.take_unused_faults()


def send(cluster: Cluster, topic: str = "Orders", body: bytes = b"x", **settings: Any) -> Any:
    with cluster.producer(retry_times_when_send_failed=0, **settings) as producer:
        return producer.send(Message(topic, body))


def is_hit(producer: Producer) -> bool:
    """Tells whether a send fails, or is stored less safely, in so short a time."""
    try:
        result = producer.send(Message("Orders", b"x"), 40)
    except PocketMQError:
        return True
    return result.status is not SendStatus.SEND_OK


@pytest.fixture(scope="module")
def shared() -> Iterator[Controlled]:
    with controlled(topics={"Orders": 1}) as running:
        yield running


@pytest.mark.parametrize("is_http", [False, True], ids=["in process", "over HTTP"])
@pytest.mark.parametrize("kind", KINDS)
def test_once_a_fault_is_over_all_is_as_before(
    shared: Controlled, kind: str, is_http: bool
) -> None:
    """Nothing waits for a round of the broker, a poll of a client, or the length of a delay."""
    cluster, given = shared.cluster, KINDS[kind]
    with cluster.producer("old", retry_times_when_send_failed=0) as old:
        old.send(Message("Orders", b"before"))
        if is_http:
            number = shared.control.ok("POST", "/faults", {"kind": kind, **given})["id"]
            assert is_hit(old) == (kind != "partition")
            shared.control.ok("DELETE", f"/faults/{number}")
        else:
            with getattr(cluster.faults, kind)(**given):
                assert is_hit(old) == (kind != "partition")
        for _ in range(2):
            assert old.send(Message("Orders", b"after")).status is SendStatus.SEND_OK
        assert send(cluster).status is SendStatus.SEND_OK
    with cluster.admin() as admin:
        assert [row.broker_name for row in admin.brokers()] == ["broker-a"]


def test_faults_that_a_test_leaves_behind_end_with_it() -> None:
    with Clusters() as clusters:
        for kind in [*KINDS, "answer"]:
            corner = clusters.corner({"topics": {"Orders": 1}}, is_async=False)
            assert isinstance(corner.cluster, Cluster)
            producer = corner.cluster.producer(retry_times_when_send_failed=0)
            producer.start()
            assert producer.send(Message("Orders", b"x")).status is SendStatus.SEND_OK
            fault = getattr(corner.cluster.faults, kind)(**KINDS[kind])
            assert is_hit(producer) == (kind != "partition")
            corner.clean()
            fault.remove()  # nothing is left to do


async def test_a_delayed_request_is_carried_out_at_the_latest_when_the_fault_ends() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster, cluster.producer() as producer:
        with cluster.faults.delay(3_600_000, request="SEND_MESSAGE") as delay:
            sent = asyncio.ensure_future(producer.send(Message("Orders", b"x"), 60_000))
            while not delay.count:
                await asyncio.to_thread(lambda: None)
            assert not sent.done()
        assert (await sent).status is SendStatus.SEND_OK


def test_messages_that_a_full_disk_held_up_come_when_it_has_room() -> None:
    with LocalCluster(topics={"Orders": 1}, clock="virtual") as cluster:
        with cluster.producer() as producer:
            producer.send(Message("Orders", b"level", delay_level=1))
            producer.send(Message("Orders", b"timer", delay_ms=1000))
        with cluster.faults.disk_full(), cluster.faults.disk_full("broker-a") as inner:
            cluster.clock.advance(seconds=10)
            inner.remove()
            cluster.clock.advance(seconds=0)
            assert cluster.stored("Orders") == []
        assert sorted(cluster.published("Orders", 2).bodies) == [b"level", b"timer"]


def test_a_request_is_refused_so_often(cluster: Cluster) -> None:
    with (
        cluster.faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Orders", times=2) as f,
        cluster.producer() as producer,
    ):
        producer.send(Message("Bills", b"spared"))
        assert f.count == 0
        assert producer.send(Message("Orders", b"third attempt")).status is SendStatus.SEND_OK
    assert f.count == 2
    assert {(x.server, x.request, x.topic, x.queue) for x in f.fired} == {
        ("broker-a", "SEND_MESSAGE_V2", "Orders", 0)
    }
    assert f.fired[0].group == "producers"
    assert abs(f.fired[0].time_ms - cluster.clock.now_ms()) < 600_000
    assert cluster.published("Orders").bodies == [b"third attempt"]


def test_the_code_and_the_words_arrive(cluster: Cluster) -> None:
    with (
        cluster.faults.answer(13, "not on Sundays", request=310),
        pytest.raises(IllegalMessageError, match="not on Sundays"),
    ):
        send(cluster)
    send(cluster)


def test_chance_follows_the_seed(cluster: Cluster) -> None:
    counts = []
    for seed in (1, 1, 2):
        failed = ""
        with cluster.faults.answer(1, request="SEND_MESSAGE", probability=0.5, seed=seed):
            for _ in range(20):
                try:
                    send(cluster)
                    failed += "-"
                except PocketMQError:
                    failed += "x"
        counts.append(failed)
    assert counts[0] == counts[1] != counts[2]
    assert 0 < counts[0].count("x") < 20


def test_a_request_or_its_reply_is_lost(cluster: Cluster) -> None:
    with cluster.faults.drop_request(request="SEND_MESSAGE"), pytest.raises(PocketMQError):
        send(cluster, body=b"lost", send_timeout_ms=100)
    with cluster.faults.drop_reply(request="SEND_MESSAGE") as lost:
        with pytest.raises(PocketMQError):
            send(cluster, body=b"stored", send_timeout_ms=100)
        assert lost.count == 1
    assert cluster.published("Orders").bodies == [b"stored"]


def test_a_connection_is_cut(cluster: Cluster) -> None:
    with (
        cluster.faults.close_connection(request="SEND_MESSAGE", times=1) as cut,
        cluster.producer() as producer,
    ):
        assert producer.send(Message("Orders", b"again")).status is SendStatus.SEND_OK
        assert cut.count == 1


def test_a_request_comes_later(cluster: Cluster) -> None:
    machine = cluster.core.machine
    with cluster.faults.delay(50, request="SEND_MESSAGE"):
        began_s = machine.monotonic()
        send(cluster)
        assert machine.monotonic() - began_s >= 0.05
    assert len(cluster.published("Orders")) == 1


@pytest.mark.parametrize(
    "status", ["FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"]
)
def test_a_message_is_stored_less_safely(cluster: Cluster, status: str) -> None:
    with cluster.producer() as producer:
        for offset in range(2):  # the first answer of a connection is made in another way
            with cluster.faults.send_status(status, topic="Orders"):
                result = producer.send(Message("Orders", b"x"))
            assert (result.status, result.queue_offset) == (SendStatus[status], offset)
        assert producer.send(Message("Orders", b"x")).status is SendStatus.SEND_OK
    assert len(cluster.published("Orders")) == 3


def test_only_one_group_is_hit(cluster: Cluster) -> None:
    with cluster.faults.answer("MESSAGE_ILLEGAL", request="SEND_MESSAGE", group="shop"):
        send(cluster)
        with (
            cluster.producer("shop") as producer,
            pytest.raises(ResponseError),
        ):
            producer.send(Message("Orders", b"x"))


def test_only_one_client_is_hit(cluster: Cluster) -> None:
    with (
        cluster.producer("one") as one,
        cluster.producer("two") as two,
    ):
        two.send(Message("Orders", b"so that the broker knows it"))
        client_id = two._twin.instance.client_id
        member = cluster.core.slots["broker-a"].broker
        assert member is not None
        known = [m.client_id for _, group in member.parts.members.producers for m in group]
        with cluster.faults.answer("MESSAGE_ILLEGAL", request="SEND_MESSAGE", client=client_id):
            one.send(Message("Orders", b"spared"))
            if client_id in known:
                with pytest.raises(ResponseError):
                    two.send(Message("Orders", b"hit"))


def test_names_are_those_of_the_namespace() -> None:
    with LocalCluster() as whole:
        mq = whole.in_namespace("t1")
        mq.create_topic("Orders", 1)
        whole.create_topic("Orders", 1)
        with mq.faults.answer("MESSAGE_ILLEGAL", request="SEND_MESSAGE", topic="Orders") as fault:
            send(whole)
            with pytest.raises(ResponseError):
                send(mq)
        assert fault.count == 1


async def test_a_send_back_that_fails_is_made_up_for() -> None:
    times: list[int] = []

    async def listen(messages: list[ReceivedMessage]) -> ConsumeResult:
        times.append(messages[0].reconsume_times)
        return ConsumeResult.SUCCESS if len(times) > 1 else ConsumeResult.RETRY

    async with LocalCluster(topics={"Orders": 1}, groups=["billing"]) as cluster:
        fault = cluster.faults.answer("SYSTEM_ERROR", request="CONSUMER_SEND_MSG_BACK", times=1)
        async with (
            cluster.push_consumer("billing", listener=listen) as consumer,
            cluster.producer() as producer,
        ):
            consumer.subscribe("Orders")
            await producer.send(Message("Orders", b"x"))
            await cluster.published("Orders", 1)
            await cluster.clock.advance(hours=1)
            await cluster.drain("billing")
        assert (times, fault.count) == ([0, 1], 1)


async def test_a_broker_hangs() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster, cluster.producer() as producer:
        await producer.send(Message("Orders", b"1"))
        with cluster.faults.pause("broker-a") as pause:
            sent = asyncio.ensure_future(producer.send(Message("Orders", b"2"), 60_000))
            while not any(f.request.startswith("SEND") for f in pause.fired):
                await asyncio.to_thread(lambda: None)
            assert not sent.done()
        await sent
        assert (await cluster.published("Orders")).bodies == [b"1", b"2"]


def test_a_broker_is_killed_and_comes_back(cluster: Cluster) -> None:
    address = cluster.brokers["broker-a"]
    send(cluster, body=b"before")
    with cluster.faults.kill("broker-a"):
        assert cluster.brokers == {}
        with pytest.raises(PocketMQError):
            send(cluster)
    assert cluster.brokers == {"broker-a": address}
    send(cluster, body=b"after")
    assert cluster.published("Orders").bodies == [b"before", b"after"]


def test_one_of_two_brokers_takes_over() -> None:
    with LocalCluster(brokers=2, topics={"Orders": 1}) as cluster, cluster.producer() as producer:
        for _ in range(4):
            producer.send(Message("Orders", b"x"))
        with cluster.faults.kill("broker-a"):
            for _ in range(4):
                result = producer.send(Message("Orders", b"x"))
                assert result.queue is not None
                assert result.queue.broker_name == "broker-b"


def test_a_broker_that_the_name_server_cannot_see() -> None:
    with LocalCluster(brokers=2, topics={"Orders": 1}) as cluster, cluster.admin() as admin:
        assert len(admin.topic_route("Orders").queue_datas) == 2
        with cluster.faults.partition("broker-a"):
            route = admin.topic_route("Orders")
            assert [q.broker_name for q in route.queue_datas] == ["broker-b"]
            assert "broker-a" in cluster.brokers
        assert len(admin.topic_route("Orders").queue_datas) == 2


def test_a_disk_is_full(cluster: Cluster) -> None:
    send(cluster, body=b"before")
    with cluster.faults.disk_full("broker-a"):
        with pytest.raises((ResponseError, SendFailedError)):
            send(cluster)
        assert cluster.published("Orders").bodies == [b"before"]
    assert cluster.brokers


def test_a_full_disk_refuses_sends_and_nothing_else(cluster: Cluster) -> None:
    send(cluster, body=b"before")
    with cluster.faults.disk_full():
        for topic in ("New", "Orders", "New"):
            with pytest.raises(SendFailedError, match=r"code 14 \(SERVICE_NOT_AVAILABLE\)"):
                send(cluster, topic)
        with cluster.lite_pull_consumer("new-group") as consumer:
            consumer.subscribe("Orders")
            assert [m.body for m in consumer.poll(10_000)] == [b"before"]
        with cluster.pull_consumer("another") as consumer:
            consumer.pull(MessageQueue("Orders", "broker-a", 0), 0)
        with cluster.admin() as admin:
            assert {"new-group", "another"} <= set(admin.groups())
    send(cluster, "New")


def test_a_broker_stops_with_a_full_disk(caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(topics={"Orders": 1}) as cluster:
        with cluster.producer() as producer:
            producer.send(Message("Orders", b"x"))
            producer.send(Message("Orders", b"y", delay_ms=10))
            cluster.clock.advance(seconds=1)
        with cluster.lite_pull_consumer("billing") as consumer:
            consumer.subscribe("Orders")
            consumer.poll(10_000)
        with cluster.faults.disk_full():
            cluster.thread.run(cluster.core.slot("broker-a").stop())
    assert "the stop is not clean" in caplog.text


def test_nothing_stands_before_handlers_without_rules(cluster: Cluster) -> None:
    broker = cluster.core.slots["broker-a"].broker
    assert broker is not None
    before = dict(broker.handlers)
    with cluster.faults.drop_reply(times=1), cluster.faults.delay(1, request="SEND_MESSAGE"):
        assert broker.handlers != before
    assert broker.handlers == before


def test_a_fault_that_never_fired_is_warned_of() -> None:
    with (
        pytest.warns(FaultWarning) as caught,
        LocalCluster() as cluster,
        cluster.faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Ordres"),
    ):
        send(cluster, "Orders")
    (warning,) = caught
    text = "the fault answer('SYSTEM_BUSY', request='SEND_MESSAGE', topic='Ordres') never fired"
    assert text in str(warning.message)


@pytest.mark.parametrize(
    ("method", "args", "where", "text"),
    [
        ("answer", ["SYSTEM_BUZY"], {}, "code='SYSTEM_BUZY' is no code of .*SYSTEM_BUSY"),
        ("answer", [4711], {}, "code=4711 is no code of RocketMQ"),
        ("answer", [1], {"request": "SEND"}, "request='SEND' is no request of RocketMQ"),
        ("answer", [1], {"topics": "a"}, r"'topics' \(did you mean 'topic'\?\)"),
        ("answer", [1], {"times": 0}, "times=0 must be 1 or more"),
        ("answer", [1], {"probability": 2}, "probability=2.* must be between 0 and 1"),
        ("answer", [1], {"queue": "first"}, "a condition does not fit: .*queue"),
        ("answer", [1], {"broker": "broker-z"}, "'broker-z'; this cluster has broker-a"),
        ("send_status", ["SEND_OK"], {}, "must be one of FLUSH_DISK_TIMEOUT"),
        ("kill", ["broker-z"], {}, "no broker is called 'broker-z'"),
    ],
)
def test_mistakes_are_named(
    cluster: Cluster, method: str, args: list[Any], where: dict[str, Any], text: str
) -> None:
    with pytest.raises((ConfigError, UsageError), match=text):
        getattr(cluster.faults, method)(*args, **where)
