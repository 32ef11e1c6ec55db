"""A gRPC server: listening sockets, their connections, and what idle and slow ones get."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from pocketmq.protocol.messages.hosts import check_port, join_address
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.grpc.connection import GrpcConnection, GrpcOptions, Held
from pocketmq.transport.grpc.limits import GrpcLimits
from pocketmq.transport.grpc.service import HEALTH_CHECK, HEALTH_SERVING, Service
from pocketmq.transport.peer_log import PeerLog
from pocketmq.transport.tls.listener import TlsListener
from pocketmq.transport.tls.settings import ServerTls, TlsMode

BACKLOG = 1024
CONNECTIONS_MAX = 20_000
CLOSE_GRACE_S = 10.0
"""So long a server that closes waits for open calls."""

LOOK_PERIOD_S = 5.0
"""How often it looks for connections that are idle, silent or do not read."""

FRAMES_PER_TURN_MAX = 128
"""Frames of all connections that are taken in one turn of the loop: 64 calls or fewer."""


class GrpcServer:
    """Serves gRPC, plain and over TLS on one port.

    Args:
        clock: its machine's clock measures all time limits.
        service: the handlers.
        limits: of the server and each connection.
        tls: whether it speaks TLS, and how.
        connections_max: how many may be open together.
        connections_max_of_address: how many of them one address may have.
        on_close: called when a connection is gone.

    Attributes:
        connections: those that are open.
        address: of the first socket; empty before `listen`.
        held: what is held of incomplete requests.
        refused_count: connections that were closed at once.
    """

    def __init__(
        self,
        clock: Clock,
        service: Service,
        *,
        limits: GrpcLimits | None = None,
        tls: ServerTls | None = None,
        connections_max: int = CONNECTIONS_MAX,
        connections_max_of_address: int = CONNECTIONS_MAX,
        on_close: Callable[[GrpcConnection], object] | None = None,
    ) -> None:
        self._clock, self._limits = clock.machine, limits or GrpcLimits()
        self._tls = tls or ServerTls()
        self._connections_max, self._of_address_max = connections_max, connections_max_of_address
        self._on_close = on_close
        self._peer_log = PeerLog(self._clock)
        self.held = Held()
        unary = {HEALTH_CHECK: lambda call, message: HEALTH_SERVING, **service.unary}
        self._options = GrpcOptions(
            clock=self._clock,
            service=msgspec.structs.replace(service, unary=unary),
            limits=self._limits,
            peer_log=self._peer_log,
            on_open=self._opened,
            on_close=self._closed,
            held=self.held,
            share=FrameShare(FRAMES_PER_TURN_MAX),
        )
        self._of_address: Counter[str] = Counter()
        self._servers: list[asyncio.Server] = []
        self._tls_listener: TlsListener | None = None
        self._tasks = Tasks()
        self._is_closed = False
        self.connections: set[GrpcConnection] = set()
        self.address = ""
        self.refused_count = 0

    async def listen(self, host: str, port: int) -> None:
        """Binds an address; port 0 lets the system choose, and `address` tells its choice.

        Raises:
            ConfigError: the port is no port, or the files for TLS do not fit.
            OSError: the address is in use or not of this machine.
        """
        check_port(port, "the gRPC server")
        if self._tls.mode is TlsMode.DISABLED:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(self._connection, host, port, backlog=BACKLOG)
            self._servers.append(server)
            bound_host, bound_port = server.sockets[0].getsockname()[:2]
        else:
            listener = self._make_tls_listener()
            bound_host, bound_port = await listener.listen(host, port, BACKLOG)
        self._bound(bound_host, bound_port)

    def _make_tls_listener(self) -> TlsListener:
        if self._tls_listener is None:
            self._tls_listener = TlsListener(
                self._connection,
                self._connection,
                self._tls,
                self._clock,
                self._peer_log,
                alpn=("h2",),
            )
        return self._tls_listener

    def _bound(self, host: str, port: int) -> None:
        if not self.address:
            self.address = join_address(host, port)
            self._tasks.spawn(repeat(self._clock, LOOK_PERIOD_S, self._look), "look at gRPC peers")

    async def listen_on(self, sockets: Sequence[socket.socket]) -> None:
        """Serves sockets that listen already, as those of a port that is loaded on demand.

        Raises:
            ConfigError: the files for TLS do not fit.
        """
        if self._tls.mode is TlsMode.DISABLED:
            loop = asyncio.get_running_loop()
            for one in sockets:
                server = await loop.create_server(self._connection, sock=one, backlog=BACKLOG)
                self._servers.append(server)
        else:
            self._make_tls_listener().listen_on(sockets)
        host, port = sockets[0].getsockname()[:2]
        self._bound(host, port)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return int(self.address.rpartition(":")[2])

    @property
    def certificate_expires_ms(self) -> float | None:
        """When its certificate expires, in milliseconds since the epoch; None without TLS."""
        return None if self._tls_listener is None else self._tls_listener.certificate_expires_ms

    def _connection(self) -> GrpcConnection:
        return GrpcConnection(self._options)

    def _opened(self, connection: GrpcConnection) -> None:
        host = connection.remote_address.rpartition(":")[0]
        reason = ""
        if self._is_closed:
            reason = "the server stops"
        elif len(self.connections) >= self._connections_max:
            reason = f"{self._connections_max} connections are open, which is the limit"
        elif self._of_address[host] >= self._of_address_max:
            reason = f"it has {self._of_address_max} connections, which is the limit of an address"
        if reason:
            self.refused_count += 1
            address = connection.remote_address
            self._peer_log.warning(address, "gRPC: refusing %s: %s", address, reason)
            connection.abort(reason)
            return
        self._of_address[host] += 1
        self.connections.add(connection)

    def _closed(self, connection: GrpcConnection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        host = connection.remote_address.rpartition(":")[0]
        self._of_address[host] -= 1
        if not self._of_address[host]:
            del self._of_address[host]
        if self._on_close is not None:
            self._on_close(connection)

    def _look(self) -> None:
        now_s, limits = self._clock.monotonic(), self._limits
        self._cut_off_slow_readers()
        for connection in list(self.connections):
            connection.refuse_unfinished(now_s - limits.request_s)
            if (
                connection.stalled_since_s is not None
                and now_s - connection.stalled_since_s > limits.stalled_s
            ):
                connection.abort(f"it has read nothing for {limits.stalled_s:g} s")
            elif connection.idle_since_s is not None:
                idle_s = now_s - connection.idle_since_s
                if not connection.has_greeted and idle_s > limits.greeting_s:
                    connection.abort("it does not greet")
                elif idle_s > limits.idle_s:
                    connection.close()

    def _cut_off_slow_readers(self) -> None:
        """Cuts off those that have left the most unread, until the rest is within the limit."""
        unsent = {one: size for one in self.connections if (size := one.unsent_size)}
        left = sum(unsent.values())
        for connection in sorted(unsent, key=lambda one: unsent[one], reverse=True):
            if left <= self._limits.unread_max:
                return
            left -= unsent[connection]
            address = connection.remote_address
            self._peer_log.warning(address, "gRPC: cutting %s off: it reads too slowly", address)
            connection.abort("it reads too slowly")

    async def close(self, grace_s: float = CLOSE_GRACE_S) -> None:
        """Takes no further calls, lets open ones end, and closes every connection. Idempotent.

        Args:
            grace_s: so long it waits for open calls; the others are given up then.
        """
        self._is_closed = True
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        await self._tasks.close()
        connections = list(self.connections)
        for connection in connections:
            connection.close()
        gone = asyncio.gather(*(connection.wait_closed() for connection in connections))
        try:
            await within(self._clock, grace_s, asyncio.shield(gone))
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort("the server stops")
            await gone
        for server in servers:
            await server.wait_closed()
