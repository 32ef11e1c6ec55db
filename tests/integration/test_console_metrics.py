"""What Prometheus gets of a console."""

from __future__ import annotations

import http.client
import subprocess
import sys

import pytest
from support.brokers.console_parts import console
from support.scrapes import scraped, value

from pocketmq.testing import LocalCluster

LATENCY = "pocketmq_console_request_latency_milliseconds_count"


def test_a_console_tells_its_requests_and_live_tails() -> None:
    with (
        LocalCluster(topics={"Orders": 1}) as cluster,
        console(cluster, metrics_port=0) as running,
    ):
        port = running.server.metrics_port
        assert port is not None
        for path, status in (("/api/v1/topics", 200), ("/api/v1/topics/None", 404), ("/", 200)):
            assert asked(running.server.address, path) == status
        before = scraped(port)
        assert value(before, LATENCY, part="api", method="GET", status="200") == 1
        assert value(before, LATENCY, part="api", method="GET", status="404") == 1
        assert value(before, LATENCY, part="pages", method="GET", status="200") == 1
        assert value(before, "pocketmq_console_live_tails") == 0
        tail = http.client.HTTPConnection(running.server.address)
        tail.request("GET", "/api/v1/topics/Orders/tail")
        answer = tail.getresponse()
        assert answer.status == 200
        during = scraped(port)
        answer.close()
        tail.close()
        assert value(during, "pocketmq_console_live_tails") == 1
        assert value(during, "pocketmq_console_requests", part="api") == 1


def asked(address: str, path: str) -> int:
    connection = http.client.HTTPConnection(address)
    connection.request("GET", path)
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_is_scraped_nowhere_unless_somebody_asks_for_it() -> None:
    with LocalCluster() as cluster, console(cluster) as running:
        assert running.server.metrics_port is None


@pytest.mark.process
def test_nothing_of_it_is_loaded_when_it_is_off() -> None:
    code = """
import asyncio, sys
from pocketmq.console.server import ConsoleOptions, ConsoleServer
async def main():
    async with ConsoleServer("127.0.0.1:1", ConsoleOptions(port=0)):
        pass
asyncio.run(main())
loaded = [name for name in sys.modules if ".metrics" in name or name.endswith(".measured")]
assert not [name for name in loaded if name.startswith("pocketmq")], loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
