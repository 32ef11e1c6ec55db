"""Apache's Java client and mqadmin over TLS, on this project's servers that take nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.conftest import BROKER_SETTINGS
from support.interop.apache_servers import CLUSTER_NAME
from support.interop.clusters import Cluster, configured_cluster
from support.interop.java_probe import JavaProbe
from support.interop.probes import ProbeFailure
from support.interop.scenarios import NewName, Scenarios, keys, numbers, play
from support.peers.certificates import CertificateFiles

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

BELIEVES_ANYBODY = {"tls.enable": "true"}
"""How Apache's clients are by default."""

FEW_S = 20
"""For what must fail."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    """Certificates of another authority."""
    return CertificateFiles(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def secured(files: CertificateFiles, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    server = {
        "tlsServerMode": "enforcing",
        "tlsServerCertPath": files.cert_path,
        "tlsServerKeyPath": files.key_path,
        "tlsServerNeedClientAuth": "optional",
        "tlsServerTrustCertPath": files.ca_path,
    }
    settings = {**BROKER_SETTINGS, **server, "tlsClientTrustCertPath": files.ca_path}
    folder = tmp_path_factory.mktemp("secured")
    with configured_cluster(folder, settings, namesrv_settings=server) as started:
        yield started


def careful(folder: Path, trusted: CertificateFiles, shown: CertificateFiles) -> dict[str, str]:
    """The properties of a client that checks the authority, and shows a certificate."""
    path = folder / "tls.properties"
    lines = {
        "tls.test.mode.enable": "false",
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": trusted.ca_path,
        "tls.client.certPath": shown.cert_path,
        "tls.client.keyPath": shown.key_path,
    }
    path.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
    return {"tls.enable": "true", "tls.config.file": str(path)}


@pytest.fixture(scope="module")
def seen(probe: JavaProbe, secured: Cluster, new_name: NewName) -> Scenarios:
    def run(command: str, **options: Any) -> Any:
        return probe.run(command, jvm=BELIEVES_ANYBODY, namesrv=secured.namesrv, **options)

    return play(run, new_name, "clustering", "transactions", "request-reply")


@pytest.mark.parametrize("command", ["clustering", "request-reply"])
def test_clients_over_tls_do_what_plain_ones_do(seen: Scenarios, command: str) -> None:
    assert seen[command]


def test_members_of_a_group_share_what_comes(seen: Scenarios) -> None:
    clustering = seen["clustering"]
    got = {key for key in keys(clustering["deliveries"]) if int(key) >= 0}
    assert got == set(numbers(clustering["sent"]))


def test_transactions_are_checked_over_the_same_connection(seen: Scenarios) -> None:
    assert seen["transactions"]["checks"]["check-commit"] >= 2
    assert len(seen["transactions"]["deliveries"]) == 2


def test_mqadmin(probe: JavaProbe, secured: Cluster) -> None:
    if not probe.is_5:
        pytest.skip("the probe runs sub-commands of 5.5.0")
    calls = [
        ["clusterList", "-n", secured.namesrv],
        ["updateTopic", "-n", secured.namesrv, "-c", CLUSTER_NAME, "-t", "OverTls"],
        ["topicRoute", "-n", secured.namesrv, "-t", "OverTls"],
    ]
    done = probe.run("mqadmin", jvm=BELIEVES_ANYBODY, calls=json.dumps(calls))
    assert [{exchange["code"] for exchange in one["exchanges"]} for one in done] == [{0}] * 3


class TestWhoIsBelieved:
    def test_both_sides_show_certificates(
        self,
        probe: JavaProbe,
        secured: Cluster,
        files: CertificateFiles,
        new_name: NewName,
        tmp_path: Path,
    ) -> None:
        jvm = careful(tmp_path, files, files)
        assert probe.run("create-topic", jvm=jvm, namesrv=secured.namesrv, topic=new_name("tls"))

    @pytest.mark.whole_interop
    def test_neither_strangers_nor_plain_clients_get_in(
        self,
        probe: JavaProbe,
        secured: Cluster,
        files: CertificateFiles,
        stranger: CertificateFiles,
        new_name: NewName,
        tmp_path: Path,
    ) -> None:
        plain: dict[str, str] = {}
        for trusted, shown in ((stranger, files), (files, stranger), (None, None)):
            jvm = plain if trusted is None or shown is None else careful(tmp_path, trusted, shown)
            with pytest.raises(ProbeFailure):
                probe.run(
                    "create-topic",
                    jvm=jvm,
                    namesrv=secured.namesrv,
                    topic=new_name("no"),
                    deadline_s=FEW_S,
                )
