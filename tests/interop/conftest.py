"""Fixtures of the interop tests: the probes and the clusters they are pointed at.

``POCKETMQ_INTEROP_NAMESRV=host:port`` points the tests at a cluster that already runs (with
automatic topic creation on) instead of starting this project's own; Apache's own server passes them
too, which shows that they ask for nothing but RocketMQ's behaviour. It needs BROKER_SETTINGS, and
what Apache has off: ``enablePropertyFilter``, ``recallMessageEnable``, ``traceTopicEnable``.
``POCKETMQ_INTEROP_CLIENT=4.9.8`` chooses another version of Apache's client; with one before 4.9
only ``test_java_client.py`` and ``test_java_variants.py`` run, which ask for nothing newer.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.interop import go_probe as go_probes
from support.interop import maven
from support.interop.apache_servers import apache_cluster, free_broker_port
from support.interop.clusters import Cluster, configured_cluster
from support.interop.go_probe import GoProbe
from support.interop.java_probe import CLIENT_VERSION, JavaProbe, build_probe

RUNNING_CLUSTER = "POCKETMQ_INTEROP_NAMESRV"
OTHER_CLIENT = "POCKETMQ_INTEROP_CLIENT"

# Short times, so that retries and transaction checks come soon.
BROKER_SETTINGS = {
    "messageDelayLevel": "1s 1s 1s 2s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    "transactionCheckInterval": 1000,
}

RunProbe = Callable[..., Any]


@pytest.fixture(scope="session")
def probe(tmp_path_factory: pytest.TempPathFactory) -> JavaProbe:
    """The Java probe, built once; the test is skipped where Java or Maven is missing."""
    if reason := maven.missing_tools():
        pytest.skip(reason)
    version = os.environ.get(OTHER_CLIENT, CLIENT_VERSION)
    return build_probe(tmp_path_factory.mktemp("java-home"), version)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """This project's cluster, or the running one that the environment names."""
    if namesrv := os.environ.get(RUNNING_CLUSTER):
        yield Cluster(namesrv)
        return
    # Clients before 4.4 use the VIP channel, which there is where the port was chosen.
    settings = {**BROKER_SETTINGS, "listenPort": free_broker_port()}
    with configured_cluster(tmp_path_factory.mktemp("pocketmq"), settings) as started:
        yield started


@pytest.fixture(scope="session")
def go_probe(tmp_path_factory: pytest.TempPathFactory) -> GoProbe:
    """The Go probe, built once; the test is skipped where Go is missing."""
    if reason := go_probes.missing_tools():
        pytest.skip(reason)
    return go_probes.build_probe(tmp_path_factory.mktemp("go-home"))


@pytest.fixture(scope="session")
def apache(probe: JavaProbe, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Apache's own name server and broker, for this project's client to talk to."""
    with apache_cluster(tmp_path_factory.mktemp("apache"), settings=BROKER_SETTINGS) as started:
        yield started


@pytest.fixture(
    scope="session", params=["here", pytest.param("apache", marks=pytest.mark.whole_interop)]
)
def either(request: pytest.FixtureRequest) -> Cluster:
    """This project's cluster, and then Apache's: what both must answer alike."""
    chosen: Cluster = request.getfixturevalue("cluster" if request.param == "here" else "apache")
    return chosen


@pytest.fixture(scope="session")
def java(probe: JavaProbe, cluster: Cluster) -> RunProbe:
    """Run a probe command against the cluster: ``java("send", topic="T", forms="sync")``."""

    def run(command: str, **options: Any) -> Any:
        return probe.run(command, **{"namesrv": cluster.namesrv, **options})

    return run


@pytest.fixture(scope="session")
def new_name() -> Callable[[str], str]:
    """Names of topics and groups that no earlier run on the same cluster can have used."""
    run = uuid.uuid4().hex[:8]
    return lambda role: f"interop-{role}-{run}"
