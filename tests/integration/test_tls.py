"""A broker and its name server over TLS, from their settings to messages."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.broker_parts import LOCALHOST, TOPIC, Client, Stage
from support.peers.certificates import CertificateFiles
from support.peers.transport import until

from pocketmq.broker import Broker
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.topics import BrokerConfigRequest
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.errors import ConnectionClosedError
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.reloaded import LOOK_PERIOD_S
from pocketmq.transport.tls.settings import ClientTls

CALL_MS = 3_600_000
MIB = 1024 * 1024


class Cluster:
    """A name server and a broker with certificates of one authority, and their clients."""

    def __init__(self, stage: Stage, clock: VirtualClock, files: CertificateFiles) -> None:
        self.stage, self.clock, self.files = stage, clock, files
        self.pools: list[ConnectionPool] = []
        self.servers: list[NameServer] = []
        self.broker: Broker

    async def start(self, mode: str = "enforcing", **settings: Any) -> None:
        given = self.files.config(mode, **settings)
        config = NamesrvConfig(listen_port=0, bind_address=LOCALHOST, **given)
        self.server = await NameServer(config, self.clock).__aenter__()
        self.servers.append(self.server)
        own: dict[str, Any] = {
            "tls_client_trust_cert_path": self.files.ca_path,
            "tls_client_cert_path": self.files.cert_path,
            "tls_client_key_path": self.files.key_path,
        }
        self.broker = await self.stage.broker(
            namesrv_addr=self.server.address, max_message_size=15 * MIB, **own, **given
        )

    def pool(self, tls: ClientTls | None) -> ConnectionPool:
        self.pools.append(ConnectionPool(self.clock, tls=tls))
        return self.pools[-1]

    def client(self, tls: ClientTls | None) -> Client:
        client = Client(self.broker, self.clock)
        client.pool = self.pool(tls)
        return client

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()
        for server in self.servers:
            await server.close()


@pytest_asyncio.fixture
async def cluster(stage: Stage, clock: VirtualClock, tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(stage, clock, CertificateFiles(tmp_path / "tls"))
    yield cluster
    await cluster.close()


async def test_messages_of_all_sizes_over_tls(cluster: Cluster) -> None:
    await cluster.start()
    client = cluster.client(cluster.files.client())
    await client.create_topic()
    bodies = [b"small", bytes(70_000), bytes(14 * MIB), b"last"]
    for body in bodies:
        await client.send(body)
    assert [message.body for message in await client.everything()] == bodies
    route = await client.pool.ask(cluster.server.address, RouteRequest(topic=TOPIC), CALL_MS)
    assert TopicRoute.decode(route.body).broker_datas[0].broker_addrs[0] == cluster.broker.address


async def test_enforcing_servers_refuse_plain_clients(cluster: Cluster) -> None:
    await cluster.start()
    plain = cluster.pool(None)
    for address in (cluster.server.address, cluster.broker.address):
        with pytest.raises(ConnectionClosedError, match="does it speak TLS only"):
            await plain.call(address, RouteRequest(topic=TOPIC), CALL_MS)


async def test_permissive_servers_serve_both(cluster: Cluster) -> None:
    await cluster.start("permissive")
    for tls in (None, cluster.files.client()):
        client = cluster.client(tls)
        await client.create_topic()
        await client.send(b"x")
        assert (
            await client.pool.call(cluster.server.address, RouteRequest(topic=TOPIC), 9)
        ).code == 0
    assert (await client.pull()).bodies == [b"x", b"x"]


async def test_mutual_tls(cluster: Cluster) -> None:
    trusted = {"tls_server_trust_cert_path": cluster.files.ca_path}
    await cluster.start(tls_server_need_client_auth="require", **trusted)
    files = cluster.files
    named = files.client(cert_path=files.cert_path, key_path=files.key_path)
    client = cluster.client(named)
    await client.create_topic()
    await client.send()
    route = await client.pool.call(cluster.server.address, RouteRequest(topic=TOPIC), CALL_MS)
    assert route.code == 0, "the broker has registered with its own certificate"
    with pytest.raises(ConnectionClosedError, match="want a certificate of the client"):
        await cluster.client(files.client()).send()


async def test_both_ports_of_a_broker_speak_tls(cluster: Cluster) -> None:
    settings = cluster.files.config() | {"vip_channel_enable": True}
    broker = await cluster.stage.broker(**settings)
    while broker.vip_port is None:  # the port before the one of the system's choice was taken
        await broker.close()
        broker = await cluster.stage.broker(**settings)
    pool = cluster.pool(cluster.files.client())
    answer = await pool.call(f"{LOCALHOST}:{broker.vip_port}", BrokerConfigRequest(), CALL_MS)
    assert answer.code == 0
    assert b"tlsServerMode=enforcing" in answer.body


async def test_the_certificate_is_renewed_while_messages_flow(
    cluster: Cluster, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.start()
    old = cluster.client(cluster.files.client())
    await old.create_topic()
    await old.send(b"before")
    held = await old.hold(1)
    cluster.files.renew([LOCALHOST], clock)
    with caplog.at_level(logging.INFO, "pocketmq.transport"):
        await clock.advance(LOOK_PERIOD_S)
    assert caplog.text.count("new connections get the certificate of") == 2
    new = cluster.client(cluster.files.client())
    await new.send(b"after")
    assert (await held).bodies == [b"after"]
    await old.send(b"goes on")
    assert (await new.pull()).bodies == [b"before", b"after", b"goes on"]
    certificates = {
        (await client.pool.get(cluster.broker.address))
        ._transport.get_extra_info("ssl_object")
        .getpeercert(True)
        for client in (old, new)
    }
    assert len(certificates) == 2


@pytest.mark.parametrize("spoilt", ["cert_path", "key_path"])
async def test_servers_do_not_start_without_their_files(cluster: Cluster, spoilt: str) -> None:
    name = getattr(cluster.files, spoilt)
    os.unlink(name)
    with pytest.raises(ConfigError, match=f"TLS: {name} cannot be read: No such file"):
        await cluster.start()
    with pytest.raises(ConfigError, match=f"TLS: {name} cannot be read: No such file"):
        await cluster.stage.broker(**cluster.files.config())


async def test_an_expired_certificate_is_told_at_the_start(
    cluster: Cluster, clock: VirtualClock
) -> None:
    cluster.files.renew([LOCALHOST], clock, days=1)
    await clock.advance(3 * 86_400)
    with pytest.raises(ConfigError, match=r"cert\.pem has expired 2\.0 days ago: renew it"):
        await cluster.start()


async def test_passwords_of_keys_are_not_shown(cluster: Cluster) -> None:
    broker = await cluster.stage.broker(tls_client_key_password="geheim")
    client = cluster.stage.client(broker)
    shown = (await client.ask(BrokerConfigRequest())).body
    assert b"tlsClientKeyPassword=****" in shown
    assert b"geheim" not in shown


async def test_nothing_is_left_of_a_client_that_hangs_up(cluster: Cluster) -> None:
    await cluster.start()
    client = cluster.client(cluster.files.client())
    await client.create_topic()
    await client.hold()
    await client.pool.close()
    await until(lambda: not cluster.broker.server.connections)
    assert len(cluster.broker.parts.polling) == 0
