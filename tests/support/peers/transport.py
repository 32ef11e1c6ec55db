"""Peers made of bare sockets: nothing of this project stands on their side but the parser."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, cast

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.wire import frames
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock, settle
from pocketmq.transport.connection import Connection, Handlers
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.server import Server

TURNS_MAX = 20_000
"""Turns of the event loop after which a condition is given up: far more than any test takes."""

RECEIVE_BUFFER_SIZE = 16 * 1024
"""Small, so that a peer that does not read is felt soon."""


async def until(condition: Callable[[], object]) -> None:
    """Lets the event loop run until something has come true."""
    for _ in range(TURNS_MAX):
        if condition():
            return
        await settle(1)
    raise AssertionError("it did not come true")


Answering = Callable[[Command], Command | None] | None


class RawPeer(asyncio.Protocol):
    """One end of a connection that does what the test says and nothing else."""

    def __init__(self, answer: Answering = None) -> None:
        self.received: list[Command] = []
        self.raw = bytearray()
        self.is_closed = False
        self._answer = answer
        self._parser = frames.FrameParser()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.raw += data
        self._parser.feed(data)
        while (command := self._parser.next_command()) is not None:
            self.received.append(command)
            answer = self._answer(command) if self._answer else None
            if answer is not None:
                answer.opaque = command.opaque
                answer.flag |= 1
                self.send(answer)

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_closed = True

    @property
    def address(self) -> str:
        """This end, as the other side sees it."""
        host, port = self.transport.get_extra_info("sockname")[:2]
        return f"{host}:{port}"

    def send(self, *commands: Command) -> None:
        self.transport.write(b"".join(map(frames.encode, commands)))

    async def got(self, count: int) -> list[Command]:
        """Waits until so many commands have come."""
        await until(lambda: len(self.received) >= count)
        return self.received

    async def gone(self) -> None:
        """Waits until the other side has closed."""
        await until(lambda: self.is_closed)


class Stage:
    """Everything that a test starts, to be stopped after it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self._servers: list[Server] = []
        self._pools: list[ConnectionPool] = []
        self._raw_servers: list[asyncio.Server] = []
        self._peers: list[RawPeer] = []

    async def serve(self, handlers: Handlers, **options: Any) -> Server:
        """A server on a free port."""
        server = Server(self.clock, handlers, **options)
        await server.listen("127.0.0.1", 0)
        self._servers.append(server)
        return server

    def pool(self, **options: Any) -> ConnectionPool:
        """A client's connections."""
        pool = ConnectionPool(self.clock, **options)
        self._pools.append(pool)
        return pool

    async def dial(self, server: Server) -> RawPeer:
        """A bare socket connected to a server."""
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_SIZE)
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(sock, split_address(server.address))
        _, peer = await loop.create_connection(RawPeer, sock=sock)
        self._peers.append(peer)
        await until(lambda: self.connection_of(server, peer) is not None)
        return peer

    def connection_of(self, server: Server, peer: RawPeer) -> Connection | None:
        """The server's side of a bare socket's connection."""
        return next((c for c in server.connections if c.remote_address == peer.address), None)

    async def raw_server(self, answer: Answering = None) -> RawServer:
        """A listening bare socket; `answer` says what its connections reply."""
        peers: list[RawPeer] = []

        def peer() -> RawPeer:
            made = RawPeer(answer)
            peers.append(made)
            self._peers.append(made)
            return made

        server = await asyncio.get_running_loop().create_server(peer, "127.0.0.1", 0)
        self._raw_servers.append(server)
        return RawServer(server, peers)

    async def close(self) -> None:
        for peer in self._peers:
            peer.transport.abort()
        for pool in self._pools:
            await pool.close()
        for server in self._servers:
            await server.close()
        for raw_server in self._raw_servers:
            raw_server.close()
            await raw_server.wait_closed()
        await settle()


class RawServer:
    """A listening socket and the connections that were made to it."""

    def __init__(self, server: asyncio.Server, peers: list[RawPeer]) -> None:
        self.server, self.peers = server, peers
        host, port = server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    async def peer(self, index: int = 0) -> RawPeer:
        """A connection, once it is there."""
        await until(lambda: len(self.peers) > index and hasattr(self.peers[index], "transport"))
        return self.peers[index]


def echo(request: Command, _: Connection) -> Command:
    return Command(ResponseCode.SUCCESS, body=request.body)


def connection_of(stage: Stage, server: Server, peer: RawPeer) -> Connection:
    connection = stage.connection_of(server, peer)
    assert connection is not None
    return connection
