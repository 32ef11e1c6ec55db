"""A cluster within a test: its clients, its time, what it shows, and what it refuses."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import subprocess
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.commands.process import TIMEOUT_S

from pocketmq.client import (
    ConsumeResult,
    LocalTransactionState,
    Message,
    MessageSelector,
    Producer,
    PushConsumer,
    ReceivedMessage,
)
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.testing import AsyncCluster, Cluster, LocalCluster
from pocketmq.testing.clock import pass_turns

LEVEL_2_HOURS = 18


class Inbox:
    """A listener that keeps what it gets."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    async def __call__(self, messages: list[ReceivedMessage]) -> None:
        self.bodies += [m.body for m in messages]


class Orders:
    """A transaction listener that knows the end of a transaction at the third question."""

    def __init__(self) -> None:
        self.asked = 0

    def execute_local_transaction(self, message: Message, arg: Any) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.asked += 1
        return LocalTransactionState.COMMIT if self.asked == 3 else LocalTransactionState.UNKNOWN


@pytest.fixture(autouse=True)
def quiet_listeners(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "pocketmq")


def test_hours_pass_at_once() -> None:
    with LocalCluster(topics={"Orders": 2}) as cluster:
        with cluster.producer() as producer:
            producer.send(Message("Orders", b"level", delay_level=LEVEL_2_HOURS))
            producer.send(Message("Orders", b"timer", delay_ms=3_600_000))
            producer.send(Message("Orders", b"now"))
        began_ms = cluster.clock.now_ms()
        assert cluster.published("Orders").bodies == [b"now"]
        cluster.clock.advance(minutes=59)
        assert cluster.published("Orders").bodies == [b"now"]
        cluster.clock.advance(minutes=1)
        assert cluster.published("Orders").bodies == [b"now", b"timer"]
        cluster.clock.advance(hours=1)
        assert cluster.published("Orders").bodies == [b"now", b"timer", b"level"]
        assert cluster.clock.now_ms() - began_ms >= 7_200_000


async def test_a_listener_has_what_came_due_when_the_jump_returns() -> None:
    inbox = Inbox()
    async with LocalCluster(topics={"Orders": 1}, clock="virtual") as cluster:
        assert isinstance(cluster, AsyncCluster)
        async with (
            cluster.push_consumer("billing", listener=inbox) as consumer,
            cluster.producer() as producer,
        ):
            consumer.subscribe("Orders")
            for hours in (3, 1, 2):
                message = Message("Orders", b"%d" % hours, delay_ms=hours * 3_600_000)
                await producer.send(message)
            await cluster.clock.advance(hours=1)
            assert inbox.bodies == [b"1"]
            await cluster.clock.advance(days=1)
            assert inbox.bodies == [b"1", b"2", b"3"]
            stored = await cluster.published("Orders")
            gaps = [b.store_timestamp - a.store_timestamp for a, b in itertools.pairwise(stored)]
            assert gaps == [3_600_000, 3_600_000]  # it stood still but for the jumps


@pytest.mark.parametrize("is_plain", [False, True])
async def test_sixteen_retries_end_among_the_dead_letters(is_plain: bool) -> None:
    times: list[int] = []

    def fail(messages: list[ReceivedMessage]) -> ConsumeResult:
        times.append(messages[0].reconsume_times)
        return ConsumeResult.RETRY

    async def fail_async(messages: list[ReceivedMessage]) -> ConsumeResult:
        return fail(messages)

    async with LocalCluster(topics={"Orders": 1}, groups=["billing"]) as cluster:
        listener = fail if is_plain else fail_async
        async with (
            cluster.push_consumer("billing", listener=listener) as consumer,
            cluster.producer() as producer,
        ):
            consumer.subscribe("Orders")
            await producer.send(Message("Orders", b"poison", keys="k1"))
            await cluster.clock.advance(hours=4)
            assert cluster.dead_letters("billing") == []
            await cluster.clock.advance(hours=1)
            assert times == list(range(17))
            assert cluster.dead_letters("billing").bodies == [b"poison"]
            await cluster.drain("billing")


def test_transactions_are_checked_until_they_end() -> None:
    orders = Orders()
    with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        cluster.transaction_producer("shop", listener=orders) as producer,
    ):
        producer.send_in_transaction(Message("Orders", b"paid"))
        cluster.clock.advance(seconds=65)
        assert (orders.asked, cluster.published("Orders")) == (2, [])
        cluster.clock.advance(minutes=5)
        assert (orders.asked, cluster.published("Orders").bodies) == (3, [b"paid"])


def test_the_oldest_messages_go_when_they_have_been_kept_long_enough() -> None:
    settings = {"segmentSize": 65_536, "fileReservedTime": 24}
    with (
        LocalCluster(topics={"Orders": 1}, broker_settings=settings) as cluster,
        cluster.producer(compress_body_over_size=1 << 20) as producer,
    ):
        for _ in range(4):
            producer.send(Message("Orders", bytes(40_000)))
        cluster.clock.advance(hours=23)
        assert len(cluster.stored("Orders")) == 4
        cluster.clock.advance(hours=2)
        producer.send(Message("Orders", b"new"))
        assert cluster.stored("Orders").bodies == [b"new"]


@pytest.mark.parametrize("clock", ["offset", "virtual"])
def test_idle_days_cost_nothing_and_a_jump_is_exact(clock: str) -> None:
    """The steps of a jump are counted: the moments at which something happens, and no others."""
    settings = {"timerMaxDelaySec": 86_400 * 60}
    days_30_ms = 30 * 86_400_000
    with (
        LocalCluster(brokers=2, topics={"Orders": 2}, clock=clock, broker_settings=settings) as mq,
        mq.producer() as producer,
    ):
        producer.send(Message("Orders", b"old"))
        producer.send(Message("Orders", b"month", delay_ms=days_30_ms))
        travel, steps = mq.core.travel, 0
        assert travel is not None
        settle = travel.settle

        async def counted() -> None:
            nonlocal steps
            steps += 1
            await settle()

        travel.settle = counted
        before_ms = mq.clock.now_ms()
        mq.clock.advance(milliseconds=days_30_ms - 60_001)
        if clock == "virtual":
            assert mq.clock.now_ms() - before_ms == days_30_ms - 60_001
        assert mq.stored("Orders") == []  # the old one has gone after three days
        mq.clock.advance(seconds=60)
        if clock == "virtual":
            assert mq.stored("Orders") == []
            mq.clock.advance(milliseconds=1)
        else:
            mq.clock.advance(seconds=1)
        assert mq.stored("Orders").bodies == [b"month"]
        mq.clock.advance(days=370)
        assert mq.stored("Orders") == []
        assert steps < 200  # 2 brokers look after 3 days each, and each 3 days at empty queues


async def test_a_jump_ends_when_its_condition_is_true() -> None:
    async with LocalCluster(topics={"Orders": 1}, clock="virtual") as cluster:

        async def bill(_: object) -> ConsumeResult:
            return ConsumeResult.RETRY

        async with cluster.push_consumer("billing", listener=bill) as consumer:
            consumer.subscribe("Orders")
            async with cluster.producer() as producer:
                await producer.send(Message("Orders", b"bad"))
                began_ms = cluster.clock.now_ms()
                await cluster.clock.advance(days=1, until=lambda: cluster.dead_letters("billing"))
                assert cluster.dead_letters("billing").bodies == [b"bad"]
                ladder_s = 10 + 30 + sum(60 * n for n in range(1, 11)) + 60 * (20 + 30) + 3600 * 3
                assert 0 <= cluster.clock.now_ms() - began_ms - ladder_s * 1000 < 100

                await producer.send(Message("Orders", b"late", delay_ms=2 * 3_600_000))

                async def is_there() -> bool:
                    return len(await cluster.published("Orders")) == 2

                with pytest.raises(AssertionError, match=r"has not come true: .* 1 message still"):
                    await cluster.clock.advance(hours=1, until=is_there, timeout_s=0)
                await cluster.clock.advance(hours=2, until=is_there)


async def test_a_new_group_begins_at_the_first_message_as_long_as_it_is_there() -> None:
    """As docs/client.md has it; afterwards it begins with what comes after its start."""
    settings = {"segmentSize": 65_536}
    async with (
        LocalCluster(topics={"Orders": 1}, broker_settings=settings) as cluster,
        cluster.producer() as producer,
    ):
        for n, day in enumerate((0, 4)):
            await cluster.clock.advance(days=day)
            for _ in range(3):
                await producer.send(Message("Orders", bytes(40_000)))
            await producer.send(Message("Orders", b"before"))
            inbox = Inbox()
            async with PushConsumer(
                f"new-{n}", listener=inbox, rebalance_interval_ms=50, **cluster.client_settings
            ) as consumer:
                consumer.subscribe("Orders")
                while not consumer.queues:
                    await pass_turns(1)
                if day:
                    await producer.send(Message("Orders", b"after"))
                await cluster.drain(f"new-{n}")
            assert inbox.bodies[-1] == (b"after" if day else b"before")
            assert len(inbox.bodies) == (1 if day else 4)


async def test_the_queue_of_a_member_that_vanished_is_anothers_after_a_minute() -> None:
    first, second = Inbox(), Inbox()
    async with LocalCluster(topics={"Orders": 1}) as cluster, cluster.producer() as producer:
        lost = cluster.push_consumer("billing", listener=first, orderly=True)
        await lost.start()
        lost.subscribe("Orders")
        await producer.send(Message("Orders", b"1"))
        await cluster.drain("billing")
        await lost.instance.close()  # without a word to the broker
        async with cluster.push_consumer("billing", listener=second, orderly=True) as consumer:
            consumer.subscribe("Orders")
            await producer.send(Message("Orders", b"2"))
            await cluster.clock.advance(seconds=61)
            await cluster.drain("billing")
        await lost.close()
    assert (first.bodies, second.bodies) == ([b"1"], [b"2"])


async def test_clients_of_the_application_live_through_a_jump() -> None:
    """They know nothing of the cluster's clock, as those of another process or language."""
    inbox = Inbox()
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        async with (
            PushConsumer(
                "billing", cluster.namesrv, listener=inbox, persist_interval_ms=20
            ) as consumer,
            Producer("shop", cluster.namesrv) as producer,
        ):
            consumer.subscribe("Orders")
            await producer.send(Message("Orders", b"1"))
            await cluster.published("Orders", 1)
            await cluster.clock.advance(days=2)
            await producer.send(Message("Orders", b"2"))
            await cluster.drain("billing")
            connections = [len(b.server.connections) for b in cluster.core.brokers()]
            assert connections == [2]  # none was closed
        assert inbox.bodies == [b"1", b"2"]


def test_it_shows_what_was_there_when_something_is_missing() -> None:
    with LocalCluster(topics={"Orders": 1, "Bills": 1}) as cluster:
        with cluster.producer() as producer:
            producer.send(Message("Orders", b"one", tags="paid", keys="k7"))
            producer.send(Message("Orders", b"two", delay_ms=60_000))
        with pytest.raises(AssertionError) as caught:
            cluster.published("Bills", 1, timeout_s=0)
        text = str(caught.value)
        assert "topic Bills should hold 1 message and holds 0" in text
        assert "topics with messages: Orders (1 message)" in text
        assert "waiting for its time, in the cluster: 1 message (" in text
        with pytest.raises(AssertionError) as caught:
            cluster.published("Orders", 2, timeout_s=0)
        assert "Orders queue 0 offset 0: b'one' tags=paid keys=k7" in str(caught.value)
        assert "b'one'" in repr(cluster.stored("Orders"))


def test_it_shows_what_a_group_has_not_handled() -> None:
    with LocalCluster(topics={"Orders": 1}) as cluster:
        with pytest.raises(AssertionError, match="nobody has consumed as group billing"):
            cluster.drain("billing", timeout_s=0)
        held = threading.Event()
        with (
            cluster.push_consumer("billing", listener=lambda _: held.wait()) as consumer,
            cluster.producer() as producer,
        ):
            consumer.subscribe("Orders")
            producer.send(Message("Orders", b"slow"))
            cluster.published("Orders", 1)
            try:
                with pytest.raises(AssertionError) as caught:
                    cluster.drain("billing", timeout_s=0.05)
            finally:
                held.set()
            text = str(caught.value)
            assert "group billing has 1 message left after 0.05 s and 1 member" in text
            assert "Orders queue 0 of broker-a: 1 message left" in text
            assert "b'slow'" in text
            cluster.drain("billing")


@pytest.mark.parametrize("expression", ["paid || sent", MessageSelector.by_sql("n > 1")])
async def test_a_group_is_done_when_nothing_is_left_that_it_wants(
    expression: str | MessageSelector,
) -> None:
    """Neither what it passed over is waited for, nor that its clients commit."""
    inbox, hour_ms = Inbox(), 3_600_000
    async with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        cluster.producer() as producer,
        cluster.push_consumer("billing", listener=inbox, persist_interval_ms=hour_ms) as consumer,
    ):
        consumer.subscribe("Orders", expression)
        for n, tag in enumerate(["new", "new", "paid", "paid", "new"]):
            properties = {"n": str(n if tag == "paid" else 0)}
            await producer.send(Message("Orders", tag, tags=tag, properties=properties))
        await cluster.drain("billing", timeout_s=5)
        assert len(inbox.bodies) == 2
        await producer.send(Message("Orders", "new", tags="new"))
        await cluster.drain("billing", timeout_s=5)


def test_it_waits_for_messages_that_fit_and_shows_how_others_differ() -> None:
    with LocalCluster(topics={"Orders": 1, "Bills": 1}) as cluster, cluster.producer() as producer:
        paid = Message(
            "Orders", '{"id": 1, "state": "paid"}', tags="paid", keys=["o1", "x"],
            properties={"region": "eu"},
        )  # fmt: skip
        producer.send(paid)
        producer.send(Message("Orders", b"plain"))
        for wanted in (
            {"body": '{"id": 1, "state": "paid"}'}, {"json": {"state": "paid", "id": 1}},
            {"key": "o1"}, {"tag": "paid"}, {"properties": {"region": "eu"}},
            {"key": "x", "tag": "paid", "json": {"id": 1, "state": "paid"}},
        ):  # fmt: skip
            assert [m.keys for m in cluster.expect("Orders", **wanted)] == [("o1", "x")]
        assert cluster.expect("Orders", b"plain", count=1).bodies == [b"plain"]
        assert cluster.expect("Orders", tag="new", count=0) == []
        with pytest.raises(AssertionError) as caught:
            cluster.expect("Orders", json={"id": 1, "state": "new"}, key="o2", timeout_s=0)
        text = str(caught.value)
        assert "should hold 1 message with json={'id': 1, 'state': 'new'}, key='o2'" in text
        assert "0 of its 2 fit after 0 s; the nearest:" in text
        assert "keys: 'o2' is not among ['o1', 'x']" in text
        assert '-  "state": "new"' in text
        assert '+  "state": "paid"' in text
        assert "body: is no JSON" in text
        with pytest.raises(AssertionError, match=r"no message with tag='paid', and holds 1:\n"):
            cluster.expect("Orders", tag="paid", count=0)
        with pytest.raises(AssertionError, match=r"the nearest:\n  \(none\)"):
            cluster.expect("Bills", tag="paid", timeout_s=0)
        with pytest.raises(UsageError, match="say what is expected"):
            cluster.expect("Orders")
        with pytest.raises(UsageError, match="did you mean 'Orders'"):
            cluster.expect("Ordres", key="o1", timeout_s=0)


async def test_it_waits_for_messages_that_fit_in_a_coroutine() -> None:
    async with LocalCluster(topics={"Orders": 1}) as cluster, cluster.producer() as producer:
        waiting = asyncio.ensure_future(cluster.expect("Orders", key="late"))
        await producer.send(Message("Orders", b"x", keys="late"))
        assert (await waiting).bodies == [b"x"]


def test_a_name_that_does_not_exist_is_no_empty_topic() -> None:
    with LocalCluster(topics={"Orders": 1}, groups=["billing"]) as cluster:
        for look in (cluster.published, cluster.stored):
            with pytest.raises(UsageError, match=r"'Ordres' \(did you mean 'Orders'\?\)"):
                look("Ordres")
            with pytest.raises(UsageError, match=r"called 'Money' \(topics: Orders\)"):
                look("Money")
            assert look("Ordres", missing_ok=True) == look("Orders") == []
        for name in ("biling", "%DLQ%biling"):
            with pytest.raises(UsageError, match=r"'biling' \(did you mean 'billing'\?\)"):
                cluster.stored(name) if "%" in name else cluster.dead_letters(name)
        assert cluster.dead_letters("biling", missing_ok=True) == []
        assert cluster.dead_letters("billing") == cluster.stored("%DLQ%billing") == []
        inside = cluster.in_namespace("test-1")
        with pytest.raises(UsageError, match=r"no topic is called 'Orders' \(topics: none\)"):
            inside.published("Orders")


CLIENTS_OF_A_PROCESS = """
import threading
from pocketmq.client import Message
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.testing import LocalCluster

def has_thread(name="pocketmq-client"):
    return name in {t.name for t in threading.enumerate()}

with LocalCluster(topics={"Orders": 1}) as cluster:
    with cluster.producer() as producer:
        producer.send(Message("Orders", b"x"))
        with cluster.lite_pull_consumer("billing") as consumer:
            consumer.subscribe("Orders")
            assert [m.body for m in consumer.poll(10_000)] == [b"x"]
        producer.send(Message("Orders", b"y"))
        assert has_thread()
    assert not has_thread()
    try:
        producer.send(Message("Orders", b"late"))
    except UsageError as e:
        assert "is not running" in str(e)
    producer.close()
    assert not has_thread()
    producer.start()
    producer.send(Message("Orders", b"again"))
    producer.close()
    try:
        cluster.producer(retry_times_when_send_failed=-1)
    except ConfigError:
        pass
    assert not has_thread()
assert not has_thread("pocketmq-cluster")
print(threading.active_count())
"""


@pytest.mark.process
def test_no_thread_is_left_when_the_last_blocking_client_is_closed() -> None:
    """In a process of its own: other tests may have clients that are still open."""
    done = subprocess.run(
        (sys.executable, "-c", CLIENTS_OF_A_PROCESS),
        capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_namespaces_do_not_see_each_other() -> None:
    with LocalCluster() as whole:
        one, two = whole.in_namespace("one"), whole.in_namespace("two")
        for cluster in (one, two):
            cluster.create_topic("Orders", 1)
            with cluster.producer() as producer:
                producer.send(Message("Orders", cluster.namespace.encode()))
        assert one.published("Orders").bodies == [b"one"]
        assert two.published("Orders")[0].topic == "Orders"
        assert whole.published("Orders", missing_ok=True) == []


async def test_many_sends_at_once_are_not_taken_for_late() -> None:
    """The broker refuses as busy what waited too long: by one clock, before and after a jump."""
    watchful = {"brokerFastFailureEnable": True, "waitTimeMillsInSendQueue": 60_000}
    async with (
        LocalCluster(topics={"Orders": 2}, broker_settings=watchful) as cluster,
        AsyncExitStack() as stack,
    ):
        producers = [  # more than those whose sends are stored one after the other
            await stack.enter_async_context(
                cluster.producer(f"p{number}", retry_times_when_send_failed=0)
            )
            for number in range(8)
        ]
        for _ in range(2):
            sends = (p.send(Message("Orders", b"x")) for _ in range(40) for p in producers)
            await asyncio.gather(*sends)
            await cluster.clock.advance(days=1)
        assert len(await cluster.published("Orders", 640)) == 640


def test_several_brokers() -> None:
    with LocalCluster(brokers=3, topics={"Orders": 2}) as cluster:
        assert list(cluster.brokers) == ["broker-a", "broker-b", "broker-c"]
        with cluster.producer() as producer:
            for _ in range(6):
                producer.send(Message("Orders", b"x", delay_ms=1000))
        cluster.clock.advance(seconds=1)
        found = {(m.broker_name, m.queue_id) for m in cluster.published("Orders", 6)}
        assert len(found) == 6


def test_data_that_was_given_stays(tmp_path: Path) -> None:
    for expected in ([], [b"x"]):
        with LocalCluster(topics={"Orders": 1}, data=tmp_path / "data") as cluster:
            assert cluster.published("Orders").bodies == expected
            if not expected:
                with cluster.producer() as producer:
                    producer.send(Message("Orders", b"x"))


def test_temporary_data_goes() -> None:
    with LocalCluster() as cluster:
        directory = cluster.core.directory
        assert directory.is_dir()
    assert not directory.exists()


def test_what_is_taken_is_named(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with LocalCluster(data=data) as cluster:
        with pytest.raises(ConfigError, match=r"in use by process .* another data="):
            LocalCluster(data=data).start()
        port = int(cluster.namesrv.rpartition(":")[2])
        with pytest.raises(
            ConfigError, match=rf"name server .*:{port}: Address already .* leave namesrv_port"
        ):
            LocalCluster(namesrv_port=port).start()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        threads = threading.active_count()
        with pytest.raises(ConfigError, match=f"{port}.*leave namesrv_port and broker_port"):
            LocalCluster(broker_port=port).start()
        assert threading.active_count() == threads


async def test_blocking_where_others_wait_is_refused() -> None:
    with LocalCluster() as cluster:
        assert isinstance(cluster, Cluster)
        for blocks in (
            lambda: cluster.clock.advance(1),
            lambda: cluster.published("Orders"),
            lambda: cluster.drain("billing"),
        ):
            with pytest.raises(UsageError, match="use `async with LocalCluster"):
                blocks()


def test_the_machines_clock_cannot_be_advanced() -> None:
    with LocalCluster(clock="system") as cluster:
        with pytest.raises(UsageError, match="start it with clock='offset'"):
            cluster.clock.advance(hours=1)
        cluster.create_topic("Orders", 1)
        with cluster.producer() as producer:
            producer.send(Message("Orders", b"x"))
        assert cluster.published("Orders").bodies == [b"x"]


async def test_a_cluster_can_be_closed_from_anywhere_and_twice() -> None:
    local = LocalCluster()
    await asyncio.to_thread(local.start)
    with pytest.raises(UsageError, match="make another LocalCluster"):
        local.start()
    local.close()
    local.close()
