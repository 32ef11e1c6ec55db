"""Whose broker the client's tests run on: this project's, or with ``--broker=apache`` Apache's.

Tests that stop brokers, or let time pass for them, always run on this project's. Where Apache's
answers differently, a test is marked with ``differs_on_apache`` and the reason.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import Client, Stage
from support.interop import maven
from support.interop.apache_servers import apache_cluster
from support.interop.clusters import Cluster, pocketmq_cluster
from support.spark.parts import Servers

from pocketmq.broker.store.mending.check import check_directory
from pocketmq.testing.clock import VirtualClock

# As this project has them by default, and quick.
APACHE_SETTINGS = {
    "messageDelayLevel": "1s 1s 1s 2s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    "transactionCheckInterval": 1000,
    "traceTopicEnable": "true",
    "recallMessageEnable": "true",
}

APACHE_TIMEOUT_S = 900
"""Of a test: its first one waits for the broker to start, which then takes a core for itself."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.broker != "apache":
        return
    for item in items:
        item.add_marker(pytest.mark.timeout(APACHE_TIMEOUT_S), append=False)
        if (mark := item.get_closest_marker("differs_on_apache")) is not None:
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture
def rare_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker's rounds of every second come once a minute, so that a day passes quickly."""
    for period in ("KEY_INDEX_PERIOD_S", "SAMPLE_PERIOD_S"):
        monkeypatch.setattr(f"pocketmq.broker.housekeeping.{period}", 60.0)


@pytest.fixture(scope="session")
def apaches_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster | None]:
    """Apache's name server and broker with ``--broker=apache``, None otherwise."""
    if request.config.option.broker != "apache":
        yield None
        return
    if reason := maven.missing_tools():
        pytest.skip(reason)
    with apache_cluster(tmp_path_factory.mktemp("apache"), settings=APACHE_SETTINGS) as started:
        yield started


@pytest.fixture(scope="module")
def one_broker(
    apaches_broker: Cluster | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A name server and a broker in processes of their own."""
    if apaches_broker is not None:
        yield apaches_broker
        return
    with pocketmq_cluster(tmp_path_factory.mktemp("cluster") / "data") as started:
        yield started


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """One Spark session for all modules: each costs seconds to start."""
    pytest.importorskip("pyspark")
    from pocketmq.spark import local_session

    # The second number: how often a task is tried.
    session = local_session(cores=2, settings={"spark.master": "local[2, 2]"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of a cluster of two brokers, in a process of its own."""
    directory = tmp_path_factory.mktemp("spark-cluster")
    servers = Servers(directory)
    ports = ("--namesrv-port", "0", "--broker-port", "0")
    try:
        up = servers.start("all", "up", "--brokers", "2", "--data", str(directory), *ports)
        yield up["namesrv"]
    finally:
        servers.stop()


@pytest.fixture
def checked(tmp_path: Path) -> Iterator[Path]:
    """Checks each data directory below the test's folder when the test is over."""
    yield tmp_path
    for directory in tmp_path.iterdir():
        assert check_directory(directory).problems == []


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock, seed: int) -> AsyncIterator[Stage]:
    """Starts brokers and clients for a test, and stops them after it."""
    async with Stage(tmp_path, clock, seed) as stage:
        yield stage


@pytest_asyncio.fixture
async def client(stage: Stage) -> Client:
    """A client of a broker that has the topic of the tests."""
    return await stage.started_with_topic()


@pytest.fixture
def turns(clock: VirtualClock, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What is done in the turns that a request gives to others, each once; None for nothing."""
    todo: list[Callable[[], object]] = []
    clock_sleep = clock.sleep

    async def give_way(seconds: float) -> None:
        if todo and seconds == 0:
            todo.pop(0)()
        await clock_sleep(seconds)

    monkeypatch.setattr(clock, "sleep", give_way)
    return todo
