"""Clients, commands and Spark's options over TLS, on a cluster with certificates of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands.here import ok, pocketmq

from pocketmq.client import (
    Admin,
    ClientTls,
    Message,
    NoNameServerError,
    Producer,
    SendStatus,
)
from pocketmq.client.diagnosis.certificates import CERTIFICATES
from pocketmq.client.diagnosis.examination import examine
from pocketmq.client.tls import use_tls
from pocketmq.runtime.clock import SystemClock
from pocketmq.spark.options import read_options, write_options
from pocketmq.testing import LocalCluster
from pocketmq.testing.cluster import Cluster

CLOCK = SystemClock()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 2}, tls=True, data=directory) as cluster:
        yield cluster


@pytest.fixture
def ca(directory: Path) -> str:
    return str(directory / "tls" / "ca.pem")


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_clients_of_a_cluster_speak_tls(cluster: Cluster) -> None:
    with cluster.producer("shop") as producer:
        producer.send(Message("Orders", b"hello"))
    assert b"hello" in cluster.published("Orders").bodies


async def test_a_client_of_the_application(cluster: Cluster, ca: str) -> None:
    tls = ClientTls(trust_cert_path=ca)
    async with Producer("shop", namesrv=cluster.namesrv, tls=tls) as producer:
        assert (await producer.send(Message("Orders", b"x"))).status is SendStatus.SEND_OK


async def test_a_plain_client_is_told_what_may_be_wrong(cluster: Cluster) -> None:
    async with Admin(cluster.namesrv, tls=False) as admin:
        with pytest.raises(NoNameServerError, match="does it speak TLS only"):
            await admin.cluster_info()


def test_commands(cluster: Cluster, ca: str, profiles: None) -> None:
    words = ("topic", "list", "-n", cluster.namesrv)
    assert "Orders" in ok(*words, "--tls-ca", ca)
    assert "does it speak TLS only?" in pocketmq(*words).stderr
    assert "of an authority that is not trusted" in pocketmq(*words, "--tls").stderr
    ok("health", "--namesrv", cluster.namesrv, "--tls")


def test_profiles(cluster: Cluster, ca: str, profiles: None) -> None:
    ok("profile", "add", "safe", "-n", cluster.namesrv, "--tls-ca", ca, "--use")
    assert "Orders" in ok("topic", "list")
    shown = json.loads(ok("profile", "show", "safe", "-o", "json"))
    assert (shown["tls"], shown["trustCertPath"]) == ("yes", ca)


async def test_the_doctor_tells_how_long_certificates_are_valid(cluster: Cluster, ca: str) -> None:
    use_tls(ClientTls(trust_cert_path=ca))
    report = await examine([cluster.namesrv], CLOCK)
    found = [finding for finding in report.findings if finding.check == CERTIFICATES]
    assert {finding.subject for finding in found} == {cluster.namesrv, "broker-a"}
    assert all("expires in 397 days" in finding.seen for finding in found)
    assert report.healthy


def test_options_of_spark(cluster: Cluster, ca: str) -> None:
    options = write_options({"namesrvAddr": cluster.namesrv, "topic": "Orders", "tlsTrustCert": ca})
    assert options.client().tls == ClientTls(trust_certs=Path(ca).read_text())
    given = {"namesrvAddr": cluster.namesrv, "topic": "Orders"}
    assert read_options({**given, "tls": "true"}).client().tls == ClientTls()
    assert read_options(given).client_tls is False
