"""What Prometheus gets of a broker, beside a scrape of Apache's 5.5.0."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.error
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from support.scrapes import PROM, scraped, scraped_families, value

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.client import (
    LocalTransactionState,
    Message,
    ReceivedMessage,
    TransactionListener,
)
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.metrics.exposition import Format
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

GOLDEN = Path(__file__).parents[1] / "wire" / "golden" / "metrics-5.5.0.txt"

NOT_EMITTED = {
    "rocketmq_pop_buffer_scan_time_consume_milliseconds", "rocketmq_pop_checkpoint_buffer_size",
    "rocketmq_pop_offset_buffer_size", "rocketmq_pop_revive_lag_milliseconds",
    "rocketmq_pop_revive_latency_milliseconds", "rocketmq_processor_watermark", "target_info",
}  # fmt: skip
"""Of Apache's; docs/metrics.md says why."""


class Unknown(TransactionListener):
    """Ends no transaction."""

    def execute_local_transaction(self, message: Message, arg: object) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        return LocalTransactionState.UNKNOWN


def port_of(cluster: Cluster) -> int:
    [broker] = cluster.thread.call(cluster.core.brokers)
    assert broker.metrics_port is not None
    return int(broker.metrics_port)


def listen(messages: list[ReceivedMessage]) -> None:
    if messages[0].body == b"bad":
        raise ValueError("it cannot be billed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A group has consumed five messages and given one up; another one lacks all of them."""
    with (
        LocalCluster(topics={"Orders": 2}, broker_settings=PROM) as cluster,
        cluster.producer("shop") as producer,
        cluster.transaction_producer("payers", listener=Unknown()) as payers,
        cluster.push_consumer("billing", listener=listen, max_reconsume_times=0) as consumer,
    ):
        consumer.subscribe("Orders")
        for body in [b"x" * 100] * 5 + [b"bad"]:
            producer.send(Message("Orders", body))
        producer.send(Message("Orders", b"later", delay_level=18))
        producer.send(Message("Orders", b"in an hour", delay_ms=3_600_000))
        payers.send_in_transaction(Message("Orders", b"half"))
        cluster.drain("billing")
        [broker] = cluster.thread.call(cluster.core.brokers)
        cluster.thread.call(broker.offsets.commit, "lagging", "Orders", 0, 0)
        yield cluster


def by_name(families: Iterable[Metric]) -> dict[str, tuple[str, set[str], set[str]]]:
    """The kind, the names of labels, and the bounds of buckets of each metric."""
    return {
        family.name: (
            family.type,
            {name for sample in family.samples for name in sample.labels} - {"le"},
            {sample.labels.get("le", "") for sample in family.samples},
        )
        for family in families
        if family.samples
    }


def test_names_kinds_labels_and_buckets_are_those_of_apaches_broker(cluster: Cluster) -> None:
    ours = by_name(scraped_families(port_of(cluster)))
    golden = by_name(text_string_to_metric_families(GOLDEN.read_text(encoding="utf-8")))
    assert golden.keys() - ours.keys() == NOT_EMITTED
    for name in golden.keys() - NOT_EMITTED:
        kind, labels, bounds = golden[name]
        assert (kind, labels, bounds) == ours[name], name
    own = {name for name in ours if name not in golden}
    assert {name for name in own if not name.startswith("pocketmq_")} == {"rocketmq_half_messages"}
    _, labels, _ = ours["rocketmq_half_messages"]
    assert labels == {"cluster", "node_id", "node_type", "otel_scope_name", "topic"}


@pytest.mark.parametrize("accept", ["text/plain", Format.OPENMETRICS.value])
def test_a_scrape_tells_what_happened(cluster: Cluster, accept: str) -> None:
    samples = scraped(port_of(cluster), accept=accept)
    assert value(samples, "rocketmq_messages_in_total", topic="Orders") == 6
    orders = {"topic": "Orders", "consumer_group": "billing"}
    assert value(samples, "rocketmq_messages_out_total", **orders) == 6
    assert value(samples, "rocketmq_throughput_out_total", **orders) > 600
    assert value(samples, "rocketmq_send_to_dlq_messages_total", consumer_group="billing") == 1
    lacking = {"topic": "Orders", "consumer_group": "lagging", "is_retry": "false"}
    lag = value(samples, "rocketmq_consumer_lag_messages", **lacking)
    assert lag == value(samples, "rocketmq_consumer_ready_messages", **lacking) == 6
    assert value(samples, "rocketmq_consumer_inflight_messages", **lacking) == 0
    assert value(samples, "rocketmq_consumer_lag_latency_milliseconds", **lacking) > 0
    assert value(samples, "pocketmq_delayed_messages") == 2
    assert value(samples, "rocketmq_producer_connections") == 2
    assert value(samples, "rocketmq_timing_messages", topic="Orders") == 1
    assert value(samples, "rocketmq_half_messages", topic="Orders") == 1
    connected = {"consumer_group": "billing", "consume_mode": "push", "version": "v5_5_0"}
    assert value(samples, "rocketmq_consumer_connections", **connected) == 1
    assert value(samples, "pocketmq_serving") == 1
    assert value(samples, "pocketmq_put_requests_total") >= 7


def test_queues_are_told_on_request(cluster: Cluster) -> None:
    port = port_of(cluster)
    samples = scraped(port, "/metrics/per-queue?topic=Orders")
    ends = [s for s in samples if s.name == "pocketmq_queue_max_offset"]
    assert sum(s.value for s in ends) == 6
    assert {s.labels["queue_id"] for s in ends} == {"0", "1"}
    lags = [s for s in samples if s.name == "pocketmq_queue_lag_messages"]
    assert sum(s.value for s in lags if s.labels["consumer_group"] == "lagging") == 6
    assert not [s for s in scraped(port) if "queue_id" in s.labels]
    with pytest.raises(urllib.error.HTTPError, match="400"):
        scraped(port, "/metrics/per-queue?topic=Unknown")


async def test_series_beyond_the_limit_are_counted_those_with_most_messages_stay(
    tmp_path: Path,
) -> None:
    config = BrokerConfig(
        listen_port=0, store_path_root_dir=str(tmp_path), metrics_max_series=150, **PROM
    )
    async with Broker(config) as broker:
        names = [f"Topic{number}" for number in range(20)]
        broker.topics.put(*(TopicConfig(topic_name=name) for name in names))
        for number, name in enumerate(names):
            broker.store.counters.count(name, 1, number + 1, 100)
        assert broker.metrics_port is not None
        samples = await asyncio.to_thread(scraped, broker.metrics_port)
    shown = {s.labels["topic"] for s in samples if s.name == "rocketmq_messages_in_total"}
    assert shown == {f"Topic{number}" for number in range(8, 20)}
    assert value(samples, "pocketmq_metrics_truncated", family="rocketmq_messages_in_total") == 8


async def test_a_topic_that_is_deleted_has_no_series_any_more(tmp_path: Path) -> None:
    config = BrokerConfig(listen_port=0, store_path_root_dir=str(tmp_path), **PROM)
    async with Broker(config) as broker:
        assert broker.metrics_port is not None
        broker.topics.put(TopicConfig(topic_name="Orders"))
        broker.store.counters.count("Orders", 1, 1, 100)
        before = await asyncio.to_thread(scraped, broker.metrics_port)
        broker.topics.remove("Orders")
        after = await asyncio.to_thread(scraped, broker.metrics_port)
    assert [s for s in before if s.labels.get("topic") == "Orders"]
    assert not [s for s in after if s.labels.get("topic") == "Orders"]


@pytest.mark.process
def test_nothing_of_it_is_loaded_when_it_is_off(tmp_path: Path) -> None:
    code = """
import asyncio, sys
from pocketmq.broker import Broker, BrokerConfig
async def main(path):
    async with Broker(BrokerConfig(listen_port=0, store_path_root_dir=path)) as broker:
        assert broker.metrics_port is None
asyncio.run(main(sys.argv[1]))
loaded = [name for name in sys.modules if ".metrics" in name and name.startswith("pocketmq")]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


def test_other_exporters_are_refused() -> None:
    with pytest.raises(ConfigError, match="a collector does that scrapes"):
        BrokerConfig(metrics_exporter_type="OTLP_GRPC")


def test_a_name_server_is_scraped_too() -> None:
    settings = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
    with LocalCluster(brokers=2, namesrv_settings=settings) as cluster:
        port = cluster.core.name_server.metrics_port
        assert port is not None
        samples = scraped(port)
    assert value(samples, "pocketmq_namesrv_brokers", cluster="DefaultCluster") == 2
    assert value(samples, "pocketmq_namesrv_live_brokers") == 2
    assert value(samples, "pocketmq_namesrv_connections") >= 2
