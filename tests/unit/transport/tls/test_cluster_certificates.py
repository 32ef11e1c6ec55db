"""A cluster's own certificates serve its servers and its clients."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.peers.transport import Stage, echo

from pocketmq.broker import BrokerConfig
from pocketmq.namesrv import NamesrvConfig
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.private_files import is_readable_by_others
from pocketmq.transport.tls.cluster_certificates import ClusterCertificates
from pocketmq.transport.tls.settings import client_tls, server_tls


@pytest.fixture
def certificates(tmp_path: Path) -> ClusterCertificates:
    return ClusterCertificates(tmp_path / "tls", SystemClock())


async def test_clients_and_brokers_trust_the_servers(
    stage: Stage, certificates: ClusterCertificates
) -> None:
    broker = BrokerConfig(**certificates.broker_settings)
    for tls in (server_tls(broker), server_tls(NamesrvConfig(**certificates.server_settings))):
        server = await stage.serve({1: echo}, tls=tls)
        for asking in (certificates.client, client_tls(broker)):
            connection = await stage.pool(tls=asking).get(server.address)
            assert (await connection.call(Command(1, body=b"x"), 3_600_000)).body == b"x"


def test_the_files_are_the_owners(tmp_path: Path, certificates: ClusterCertificates) -> None:
    files = sorted((tmp_path / "tls").iterdir())
    assert [file.name for file in files] == ["ca.pem", "cert.pem", "key.pem"]
    assert not any(map(is_readable_by_others, files))
