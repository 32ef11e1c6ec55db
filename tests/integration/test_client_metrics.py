"""What Prometheus gets of producers and consumers, beside the enums of RocketMQ 5's Java client."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator

import pytest
from prometheus_client.samples import Sample
from support.scrapes import families_of, scraped, value

from pocketmq.client import ConsumeResult, Message, ReceivedMessage
from pocketmq.client.hooks import COMMON, CommonHooks
from pocketmq.client.metrics import ClientMetrics
from pocketmq.testing import LocalCluster

BUCKETS = {
    "rocketmq_send_cost_time": [1, 5, 10, 20, 50, 200, 500],
    "rocketmq_delivery_latency": [1, 5, 10, 20, 50, 200, 500],
    "rocketmq_await_time": [1, 5, 20, 100, 1000, 5000, 10_000],
    "rocketmq_process_time": [1, 5, 10, 100, 1000, 10_000, 60_000],
}
"""`HistogramEnum` of org.apache.rocketmq.client.java.metrics, in milliseconds."""


def samples_of(metrics: ClientMetrics) -> list[Sample]:
    return [s for family in families_of(metrics.text().decode()) for s in family.samples]


@pytest.fixture
def installed() -> Iterator[ClientMetrics]:
    """Metrics of all clients that the test makes."""
    metrics = ClientMetrics()
    metrics.install()
    yield metrics
    none = CommonHooks()
    COMMON.sending, COMMON.handling, COMMON.receiving = none.sending, none.handling, none.receiving


def test_sends_and_handling_of_blocking_clients(installed: ClientMetrics) -> None:
    def listen(messages: list[ReceivedMessage]) -> ConsumeResult:
        bad = messages[0].body == b"bad" and not messages[0].reconsume_times
        return ConsumeResult.RETRY if bad else ConsumeResult.SUCCESS

    with (
        LocalCluster(topics={"Orders": 1}, clock="virtual") as cluster,
        cluster.producer("shop") as producer,
        cluster.push_consumer("billing", listener=listen) as consumer,
    ):
        installed.watch(consumer)
        consumer.subscribe("Orders")
        for body in (b"1", b"2", b"bad"):
            producer.send(Message("Orders", body))
        producer.send_batch([Message("Orders", b"3"), Message("Orders", b"4")])
        cluster.drain("billing")
        cluster.clock.advance(minutes=1)
        cluster.drain("billing")
        samples = samples_of(installed)
    sent = {"topic": "Orders", "invocation_status": "success"}
    assert value(samples, "rocketmq_send_cost_time_count", **sent) == 5
    handled = {"topic": "Orders", "consumer_group": "billing"}
    assert value(samples, "rocketmq_await_time_count", **handled) >= 5
    process = "rocketmq_process_time_count"
    assert value(samples, process, invocation_status="failure", **handled) == 1
    assert value(samples, process, invocation_status="success", **handled) == 5
    assert value(samples, "rocketmq_consumer_cached_messages", **handled) == 0
    for name, bounds in BUCKETS.items():
        found = {float(s.labels["le"]) for s in samples if s.name == f"{name}_bucket"}
        assert found in (set(), {*map(float, bounds), float("inf")}), name


async def test_pops_tell_how_long_messages_were_on_their_way() -> None:
    metrics = ClientMetrics()
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        handled = asyncio.Event()

        async def listen(messages: list[ReceivedMessage]) -> None:
            handled.set()

        consumer = metrics.watch(
            cluster.push_consumer(
                "billing", listener=listen, mode="pop", hooks=metrics.consume_hooks
            )
        )
        async with consumer, cluster.producer(hooks=metrics.send_hooks) as producer:
            consumer.subscribe("Orders")
            await producer.send(Message("Orders", b"1"))
            await handled.wait()
        samples = samples_of(metrics)
    of = {"topic": "Orders", "consumer_group": "billing"}
    assert value(samples, "rocketmq_delivery_latency_count", **of) == 1
    assert value(samples, "rocketmq_send_cost_time_count", topic="Orders") == 1


async def test_messages_that_wait_for_the_listener_are_cached() -> None:
    metrics = ClientMetrics()
    async with LocalCluster(topics={"Orders": 1}) as cluster:
        begun, end = asyncio.Event(), asyncio.Event()

        async def listen(messages: list[ReceivedMessage]) -> None:
            begun.set()
            await end.wait()

        consumer = cluster.push_consumer("billing", listener=listen, concurrency=1)
        async with metrics.watch(consumer), cluster.producer() as producer:
            consumer.subscribe("Orders")
            await producer.send_batch([Message("Orders", b"x" * 100) for _ in range(3)])
            await begun.wait()
            samples = samples_of(metrics)
            end.set()
    of = {"topic": "Orders", "consumer_group": "billing"}
    assert value(samples, "rocketmq_consumer_cached_messages", **of) == 3
    assert value(samples, "rocketmq_consumer_cached_bytes", **of) > 300


async def test_they_are_served_on_a_port_of_the_application() -> None:
    async with ClientMetrics().serve() as port:
        samples = await asyncio.to_thread(scraped, port)
    assert value(samples, "pocketmq_client_build_info") == 1


def test_they_are_served_without_a_loop_of_the_application() -> None:
    with ClientMetrics().serving() as port:
        assert value(scraped(port), "pocketmq_client_build_info") == 1


def test_openmetrics_on_request() -> None:
    metrics = ClientMetrics()
    text = metrics.text(openmetrics=True).decode()
    assert families_of(text, metrics.content_type(openmetrics=True))
    assert text.endswith("# EOF\n")


@pytest.mark.process
def test_nothing_of_it_is_loaded_unless_it_is_imported() -> None:
    code = """
import sys, pocketmq.client, pocketmq.client.blocking
loaded = [name for name in sys.modules if "metrics" in name and name.startswith("pocketmq")]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
