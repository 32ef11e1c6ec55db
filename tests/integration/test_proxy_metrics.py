"""What Prometheus gets of a proxy, and of a broker with a gRPC port of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from support.brokers.broker_parts import Stage
from support.brokers.grpc_parts import GrpcClient, make_topic, message
from support.scrapes import PROM, scraped, value

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.server import Proxy

LATENCY = "pocketmq_proxy_rpc_latency_milliseconds_count"


async def test_a_proxy_tells_its_clients_calls_and_refusals(stage: Stage) -> None:
    async with NameServer(NamesrvConfig(listen_port=0), stage.clock) as namesrv:
        broker = await stage.broker(namesrv_addr=namesrv.address)
        make_topic(broker)
        config = ProxyConfig(
            namesrv_addr=namesrv.address, grpc_server_port=0, proxy_name="front", **PROM
        )
        async with Proxy(config, stage.clock) as proxy:
            client = GrpcClient(broker, "client-1", endpoint=proxy.address)
            await client.send(message(b"1"))
            await client.send(message(b"2"))
            await client.send(message(b"3", topic="Unknown"))
            await client.receive()
            assert proxy.metrics_port is not None
            samples = await asyncio.to_thread(scraped, proxy.metrics_port)
            await client.close()
    up = {"node_type": "proxy", "node_id": "front", "cluster": "DefaultCluster"}
    assert value(samples, "rocketmq_proxy_up", proxy_mode="cluster", **up) == 1
    assert value(samples, LATENCY, rpc="SendMessage", code="ok") == 2
    assert value(samples, LATENCY, rpc="SendMessage", code="topic_not_found") == 1
    assert value(samples, LATENCY, rpc="ReceiveMessage", code="ok") == 1
    assert value(samples, "pocketmq_proxy_calls", rpc="SendMessage") == 0
    assert value(samples, "pocketmq_proxy_clients") == 1
    assert value(samples, "pocketmq_proxy_connections") == 1
    assert value(samples, "pocketmq_certificate_expiry_timestamp_seconds") > 0


async def test_a_broker_tells_the_same_of_its_grpc_port(stage: Stage) -> None:
    broker = await stage.broker(grpc_server_port=0, **PROM)
    make_topic(broker)
    assert broker.metrics_port is not None
    before = await asyncio.to_thread(scraped, broker.metrics_port)
    assert not [s for s in before if s.name.startswith("pocketmq_proxy_")]
    client = GrpcClient(broker, "client-1")
    await client.send(message(b"1"))
    await client.send(message(b"2", topic="Unknown"))
    await client.receive()
    samples = await asyncio.to_thread(scraped, broker.metrics_port)
    await client.close()
    node = {"node_type": "broker", "node_id": "broker-a", "cluster": "DefaultCluster"}
    assert value(samples, LATENCY, rpc="SendMessage", code="ok", **node) == 1
    assert value(samples, LATENCY, rpc="SendMessage", code="topic_not_found", **node) == 1
    assert value(samples, LATENCY, rpc="ReceiveMessage", code="ok", **node) == 1
    assert value(samples, "pocketmq_proxy_calls", rpc="SendMessage", **node) == 0
    assert value(samples, "pocketmq_proxy_clients", **node) == 1
    assert value(samples, "pocketmq_proxy_connections", **node) == 1
    assert value(samples, "pocketmq_proxy_refused_connections_total", **node) == 0


@pytest.mark.process
def test_nothing_of_it_is_loaded_when_it_is_off() -> None:
    code = """
import asyncio, sys
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.server import Proxy
async def main():
    async with Proxy(ProxyConfig(grpc_server_port=0)) as proxy:
        assert proxy.metrics_port is None
asyncio.run(main())
loaded = [name for name in sys.modules if "metrics" in name and name.startswith("pocketmq")]
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
