"""What the first byte of a connection decides, and that half-open handshakes are bounded."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from support.peers.certificates import CertificateFiles
from support.peers.transport import RawPeer, Stage, echo, until

from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.errors import ConnectError, ConnectionClosedError
from pocketmq.transport.peer_log import PeerLog
from pocketmq.transport.server import Server
from pocketmq.transport.tls.listener import (
    FULL_PAUSE_S,
    HANDSHAKE_TIMEOUT_S,
    OUT_OF_FILES_PAUSE_S,
    PENDING_GRACE_S,
    TlsListener,
)
from pocketmq.transport.tls.reloaded import LOOK_PERIOD_S
from pocketmq.transport.tls.settings import ClientAuth, TlsMode

HELLO = b"\x16\x03\x01\x02\x00\x01"
"""How a TLS handshake begins."""

CALL_MS = 3_600_000


@pytest.fixture(scope="module")
def module_files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def files(module_files: CertificateFiles) -> CertificateFiles:
    """Not to be changed."""
    return module_files


@pytest.fixture
def own_files(tmp_path: Path) -> CertificateFiles:
    """To be changed."""
    return CertificateFiles(tmp_path)


class Talkative(asyncio.Protocol):
    """Speaks first, as a server of mails does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast("asyncio.WriteTransport", transport).write(b"220 welcome\r\n")


async def ask(stage: Stage, server: Server, body: bytes = b"x", **pool: Any) -> bytes:
    connection = await stage.pool(**pool).get(server.address)
    return (await connection.call(Command(1, body=body), CALL_MS)).body


def knock(address: str, data: bytes = b"") -> socket.socket:
    sock = socket.create_connection(split_address(address))
    sock.sendall(data)
    sock.setblocking(False)
    return sock


def is_closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def listener_of(server: Server) -> TlsListener:
    assert server._tls_listener is not None
    return server._tls_listener


async def test_enforcing_serves_tls_and_refuses_plain(
    stage: Stage, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    assert await ask(stage, server, tls=files.client()) == b"x"
    with pytest.raises(ConnectionClosedError, match="never answered: does it speak TLS only"):
        await ask(stage, server)
    for _ in range(20):
        knock(server.address, b"\x00\x00\x00\x10").close()
    await until(lambda: not listener_of(server).pending_count)
    assert 1 <= caplog.text.count("does not speak TLS, and gets no answer") <= 5


async def test_permissive_serves_both(stage: Stage, files: CertificateFiles) -> None:
    server = await stage.serve({1: echo}, tls=files.server(TlsMode.PERMISSIVE))
    assert await ask(stage, server, tls=files.client()) == b"x"
    assert await ask(stage, server) == b"x"


@pytest.mark.parametrize("client_auth", [ClientAuth.OPTIONAL, ClientAuth.REQUIRE])
async def test_mutual_tls(
    stage: Stage, files: CertificateFiles, tmp_path: Path, client_auth: ClientAuth
) -> None:
    settings = files.server(client_auth=client_auth, trust_cert_path=files.ca_path)
    server = await stage.serve({1: echo}, tls=settings)
    own = files.client(cert_path=files.cert_path, key_path=files.key_path)
    assert await ask(stage, server, tls=own) == b"x"
    if client_auth is ClientAuth.OPTIONAL:
        assert await ask(stage, server, tls=files.client()) == b"x"
        return
    with pytest.raises(ConnectionClosedError, match="does it want a certificate of the client"):
        await ask(stage, server, tls=files.client())
    stranger = CertificateFiles(tmp_path)
    foreign = files.client(cert_path=stranger.cert_path, key_path=stranger.key_path)
    with pytest.raises(ConnectionClosedError, match="does it want a certificate of the client"):
        await ask(stage, server, tls=foreign)


async def test_a_client_says_what_is_wrong_with_a_server(
    stage: Stage, files: CertificateFiles, tmp_path: Path, clock: VirtualClock
) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    stranger = CertificateFiles(tmp_path / "stranger")
    with pytest.raises(ConnectError, match="of an authority that is not trusted"):
        await ask(stage, server, tls=stranger.client())
    named = CertificateFiles(tmp_path / "named", ["broker.example"], ca=files.ca)
    elsewhere = await stage.serve({1: echo}, tls=named.server())
    with pytest.raises(ConnectError, match="not for this address: dial a name that it has"):
        await ask(stage, elsewhere, tls=files.client())
    assert await ask(stage, elsewhere, tls=files.client(verify=False)) == b"x"
    # Valid by the clock of the test, not by the machine's.
    brief = CertificateFiles(tmp_path / "brief", ca=files.ca, clock=clock, days=1)
    expired = await stage.serve({1: echo}, tls=brief.server())
    with pytest.raises(ConnectError, match="has expired: renew it on the server"):
        await ask(stage, expired, tls=files.client())
    plain = await stage.serve({1: echo})
    with pytest.raises(ConnectError, match="leave TLS out, or turn it on in the server"):
        await ask(stage, plain, tls=files.client())
    loop = asyncio.get_running_loop()
    talkative = await loop.create_server(Talkative, "127.0.0.1", 0)
    host, port = talkative.sockets[0].getsockname()
    with pytest.raises(ConnectError, match="it does not speak TLS there: leave TLS out"):
        await stage.pool(tls=files.client()).get(f"{host}:{port}")
    talkative.close()
    await talkative.wait_closed()


async def test_new_certificates_are_for_new_connections(
    stage: Stage, own_files: CertificateFiles, clock: VirtualClock
) -> None:
    server = await stage.serve({1: echo}, tls=own_files.server())
    old = await stage.pool(tls=own_files.client()).get(server.address)
    certificate = old._transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
    own_files.renew(["127.0.0.1"], clock)
    await clock.advance(LOOK_PERIOD_S)
    new = await stage.pool(tls=own_files.client()).get(server.address)
    assert new._transport.get_extra_info("ssl_object").getpeercert(True) != certificate
    assert (await old.call(Command(1, body=b"goes on"), CALL_MS)).body == b"goes on"


async def test_a_first_byte_that_never_comes(
    stage: Stage, files: CertificateFiles, clock: VirtualClock
) -> None:
    server = await stage.serve({1: echo}, tls=files.server(TlsMode.PERMISSIVE))
    with knock(server.address) as silent, knock(server.address, HELLO) as half:
        await until(lambda: listener_of(server).pending_count == 2)
        await settle()
        await clock.advance(HANDSHAKE_TIMEOUT_S - 1)
        assert not is_closed(silent)
        assert not is_closed(half)
        await clock.advance(1)
        await until(lambda: is_closed(silent))
        await until(lambda: is_closed(half))
    assert listener_of(server).pending_count == 0
    assert not server.connections


@pytest.mark.parametrize("data", [b"\x16garbage, no hello of TLS", b"\x16", HELLO, b""])
async def test_garbage_and_hang_ups_leave_nothing(
    stage: Stage, files: CertificateFiles, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    server = await stage.serve({1: echo}, tls=files.server())
    with knock(server.address, data):
        await until(lambda: listener_of(server).pending_count)
    await until(lambda: not listener_of(server).pending_count)
    assert not server.connections
    assert "failed" not in caplog.text.replace("TLS failed", "")
    assert await ask(stage, server, tls=files.client()) == b"x"


@pytest_asyncio.fixture
async def small(
    files: CertificateFiles, clock: VirtualClock
) -> AsyncIterator[Callable[[], TlsListener]]:
    made: list[TlsListener] = []

    def make() -> TlsListener:
        made.append(
            TlsListener(RawPeer, RawPeer, files.server(), clock, PeerLog(clock), pending_max=100)
        )
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.mark.parametrize("data", [HELLO, b""])
async def test_half_open_handshakes_are_bounded(
    small: Callable[[], TlsListener], clock: VirtualClock, files: CertificateFiles, data: bytes
) -> None:
    listener = small()
    host, port = await listener.listen("127.0.0.1", 0, 64)
    first = knock(f"{host}:{port}", data)
    socks = []
    for _ in range(2000 // 50):
        await until(lambda: listener.pending_count)
        socks += [knock(f"{host}:{port}", data) for _ in range(50)]
        await settle()
        assert listener.pending_count <= 100
        await clock.advance(PENDING_GRACE_S)
    assert is_closed(first)
    await clock.advance(HANDSHAKE_TIMEOUT_S)
    await until(lambda: all(map(is_closed, socks)))
    context = ssl.create_default_context(cafile=files.ca_path)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(RawPeer, host, port, ssl=context)
    transport.abort()
    for sock in (first, *socks):
        sock.close()


async def test_the_young_are_not_pushed_out(
    small: Callable[[], TlsListener], clock: VirtualClock
) -> None:
    listener = small()
    host, port = await listener.listen("127.0.0.1", 0, 200)
    socks = [knock(f"{host}:{port}") for _ in range(150)]
    await until(lambda: listener.pending_count == 100)
    await settle()
    assert not any(map(is_closed, socks))
    await clock.advance(PENDING_GRACE_S)
    await settle()
    await clock.advance(FULL_PAUSE_S)
    await until(lambda: sum(map(is_closed, socks)) == 50)
    await listener.close()
    await listener.close()
    await until(lambda: all(map(is_closed, socks)))
    for sock in socks:
        sock.close()


async def test_no_file_handles_are_left(
    small: Callable[[], TlsListener], clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Full(socket.socket):
        def accept(self) -> Any:
            raise OSError(24, "Too many open files")

    listener = small()
    host, port = await listener.listen("127.0.0.1", 0, 64)
    listener._loop.remove_reader(listener._sockets[0])
    real = listener._sockets.pop()
    full = Full(fileno=real.detach())
    listener._sockets.append(full)
    listener._resume()
    with knock(f"{host}:{port}"):
        await until(lambda: "no connection can be accepted" in caplog.text)
        await settle()
        assert caplog.text.count("no connection can be accepted") == 1
        await clock.advance(OUT_OF_FILES_PAUSE_S)
        await until(lambda: caplog.text.count("no connection can be accepted") == 2)


async def test_an_address_in_use(small: Callable[[], TlsListener]) -> None:
    listener = small()
    host, port = await listener.listen("127.0.0.1", 0, 64)
    with pytest.raises(OSError, match="in use"):
        await listener.listen(host, port, 64)
    assert listener.pending_count == 0
