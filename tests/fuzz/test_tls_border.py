# Invariant: whatever a peer sends to a port that speaks TLS, and wherever it stops, the server logs
# it at most, keeps nothing of it once the peer is gone, and goes on serving; no callback of the
# loop fails, and no frame that came outside of TLS is taken.

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from support.peers.certificates import CertificateFiles
from support.peers.transport import until

from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.server import Server

ROUNDS = 60
FRAME = frames.encode(Command(1, body=b"outside of TLS"))


class Peer:
    """One end of a TLS handshake in memory, whose bytes are ours to change."""

    def __init__(self, files: CertificateFiles) -> None:
        context = ssl.create_default_context(cafile=files.ca_path)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def says(self) -> bytes:
        """What it would send next in its handshake."""
        with contextlib.suppress(ssl.SSLWantReadError):
            self.tls.do_handshake()
        return self.outgoing.read()


Attack = Callable[[random.Random, Peer], bytes]


def noise(chance: random.Random, _: Peer) -> bytes:
    return b"\x16" + chance.randbytes(chance.randrange(600))


def versioned_noise(chance: random.Random, _: Peer) -> bytes:
    content = chance.randbytes(chance.randrange(1, 400))
    return b"\x16\x03\x01" + len(content).to_bytes(2, "big") + content


def half_hello(chance: random.Random, peer: Peer) -> bytes:
    hello = peer.says()
    return hello[: chance.randrange(1, len(hello))]


def bent_hello(chance: random.Random, peer: Peer) -> bytes:
    hello = bytearray(peer.says())
    for _ in range(chance.randrange(1, 4)):
        hello[chance.randrange(1, len(hello))] ^= 1 << chance.randrange(8)
    return bytes(hello)


def plain_after_hello(chance: random.Random, peer: Peer) -> bytes:
    return peer.says() + FRAME * chance.randrange(1, 4)


def two_hellos(_: random.Random, peer: Peer) -> bytes:
    return peer.says() * 2


def plain(chance: random.Random, _: Peer) -> bytes:
    return FRAME[: chance.randrange(1, len(FRAME) + 1)]


ATTACKS = (
    noise, versioned_noise, half_hello, bent_hello, plain_after_hello, two_hellos, plain,
)  # fmt: skip


class Border:
    """An enforcing server, and what it took and failed at."""

    def __init__(self, files: CertificateFiles) -> None:
        self.files, self.clock = files, VirtualClock()
        self.taken: list[bytes] = []
        self.failures: list[object] = []
        self.server = Server(self.clock, {1: self._take}, tls=files.server())
        asyncio.get_running_loop().set_exception_handler(lambda _, seen: self.failures.append(seen))

    def _take(self, request: Command, _: Connection) -> Command:
        self.taken.append(request.body)
        return Command(0)

    def dial(self, data: bytes) -> socket.socket:
        sock = socket.create_connection(split_address(self.server.address))
        sock.sendall(data)
        sock.setblocking(False)
        return sock

    async def check(self) -> None:
        """Nothing is left of anybody, and an honest client is served."""
        listener = self.server._tls_listener
        assert listener is not None
        await until(lambda: not listener.pending_count and not self.server.connections)
        pool = ConnectionPool(self.clock, tls=self.files.client())
        connection = await pool.get(self.server.address)
        assert (await connection.call(Command(1, body=b"honest"), 3_600_000)).code == 0
        await pool.close()
        assert set(self.taken) == {b"honest"}
        assert not self.failures


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    directory: Path = tmp_path_factory.mktemp("tls")
    return CertificateFiles(directory)


@pytest.mark.parametrize("attack", ATTACKS)
async def test_before_the_handshake(attack: Attack, files: CertificateFiles, seed: int) -> None:
    chance, border = random.Random(seed), Border(files)
    await border.server.listen("127.0.0.1", 0)
    for _ in range(ROUNDS):
        border.dial(attack(chance, Peer(files))).close()
    await border.check()
    await border.server.close()


@pytest.mark.parametrize("is_noise", [False, True])
async def test_after_the_handshake(is_noise: bool, files: CertificateFiles, seed: int) -> None:
    chance, border = random.Random(seed), Border(files)
    await border.server.listen("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    for _ in range(ROUNDS // 4):
        peer = Peer(files)
        sock = border.dial(peer.says())
        while not (said := peer.says()):
            peer.incoming.write(await loop.sock_recv(sock, 65536))
        await loop.sock_sendall(sock, said)
        await loop.sock_sendall(
            sock, chance.randbytes(chance.randrange(1, 300)) if is_noise else FRAME
        )
        sock.close()
    await border.check()
    await border.server.close()
