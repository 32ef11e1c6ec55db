"""Listening sockets and their connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from pocketmq.protocol.messages.hosts import check_port, join_address
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.loop_watch import LoopWatch
from pocketmq.transport.connection import Connection, ConnectionOptions, Handlers
from pocketmq.transport.frame_budget import FrameBudget
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.frame_stream import ReadEvents
from pocketmq.transport.limits import Limits
from pocketmq.transport.peer_log import PeerLog
from pocketmq.transport.slow_readers import SlowReaders
from pocketmq.transport.tls.connection import TlsConnection
from pocketmq.transport.tls.listener import TlsListener
from pocketmq.transport.tls.settings import ServerTls, TlsMode

if TYPE_CHECKING:
    from pocketmq.transport.metering.metered import Meter

BACKLOG = 1024
CONNECTIONS_MAX = 20_000
"""Further connections are closed at once; each open one costs a few kilobytes."""

RETUNED_BELOW = 8
"""With less than an eighth of the connections for which pause sizes were cut, they grow again."""


def connection_types(
    meter: Meter | None,
) -> tuple[Callable[..., Connection], Callable[..., TlsConnection]]:
    """Returns what makes connections without and with TLS, which a meter is told of."""
    if meter is None:
        return Connection, TlsConnection
    from pocketmq.transport.metering.metered import MeteredConnection, MeteredTlsConnection

    return partial(MeteredConnection, meter), partial(MeteredTlsConnection, meter)


class Server:
    """Accepts connections and gives their requests to handlers.

    Args:
        clock: for deadlines and idle limits.
        handlers: by request code.
        limits: of each connection.
        on_close: called when a connection is gone.
        connections_max: how many may be open together.
        connections_max_of_address: how many of them one address may have.
        read_events: notified when a read of any connection begins and ends.
        watch: notified of each request.
        budget: how much of large frames may be under way.
        slow_readers: how much may wait for peers that do not read.
        share: how many frames are taken in one iteration of the loop.
        connections: where the server keeps, in order, its open connections.
        view_codes: requests whose handlers take a `memoryview` as their body.
        tls: whether it speaks TLS, and how.
        meter: is told of each answer; None if nobody wants to know.

    Attributes:
        connections: those that are open.
        address: of the first socket; empty before `listen`.
        refused_count: connections that were closed at once, because too many are open.
    """

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers,
        *,
        limits: Limits | None = None,
        on_close: Callable[[Connection], object] | None = None,
        connections_max: int = CONNECTIONS_MAX,
        connections_max_of_address: int = CONNECTIONS_MAX,
        read_events: ReadEvents | None = None,
        watch: LoopWatch | None = None,
        budget: FrameBudget | None = None,
        slow_readers: SlowReaders | None = None,
        share: FrameShare | None = None,
        connections: dict[Connection, None] | None = None,
        view_codes: frozenset[int] = frozenset(),
        tls: ServerTls | None = None,
        meter: Meter | None = None,
    ) -> None:
        self._connection_types = connection_types(meter)
        self._tls = tls or ServerTls()
        self._tls_listener: TlsListener | None = None
        self._clock, self._handlers, self._limits = clock.machine, handlers, limits or Limits()
        self._on_close, self._connections_max = on_close, connections_max
        self._of_address_max = connections_max_of_address
        self._of_address: Counter[str] = Counter()
        self._slow_readers = slow_readers or SlowReaders(clock.machine)
        self._peer_log = PeerLog(clock.machine)
        self._options = ConnectionOptions(
            limits=self._limits,
            on_open=self._opened,
            on_close=self._closed,
            read_events=read_events,
            watch=watch,
            budget=budget or FrameBudget(clock.machine),
            slow_readers=self._slow_readers,
            share=share or FrameShare(),
            view_codes=view_codes,
            peer_log=self._peer_log,
        )
        self._pause_size = self._limits.write_pause_size
        self._tuned_for = 0
        self._servers: list[asyncio.Server] = []
        self._is_closed = False
        self.connections: dict[Connection, None] = {} if connections is None else connections
        self.address = ""
        self.refused_count = 0

    async def listen(self, host: str, port: int) -> None:
        """Binds an address; port 0 lets the system choose, and `address` tells its choice.

        Further calls add sockets to the first one, whose address stays the server's.

        Raises:
            ConfigError: the port is no port, or the files for TLS do not fit.
            OSError: the address is in use or not of this machine.
        """
        check_port(port, "the server")
        if self._tls.mode is TlsMode.DISABLED:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(self._connection, host, port, backlog=BACKLOG)
            self._servers.append(server)
            bound_host, bound_port = server.sockets[0].getsockname()[:2]
        else:
            if self._tls_listener is None:
                self._tls_listener = TlsListener(
                    self._connection,
                    self._tls_connection,
                    self._tls,
                    self._clock,
                    self._peer_log,
                )
            bound_host, bound_port = await self._tls_listener.listen(host, port, BACKLOG)
        self.address = self.address or join_address(bound_host, bound_port)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return int(self.address.rpartition(":")[2])

    @property
    def certificate_expires_ms(self) -> float | None:
        """When its certificate expires, in milliseconds since the epoch; None without TLS."""
        return None if self._tls_listener is None else self._tls_listener.certificate_expires_ms

    def _connection(self) -> Connection:
        plain, _ = self._connection_types
        return plain(self._clock, self._handlers, self._options)

    def _tls_connection(self) -> TlsConnection:
        _, secured = self._connection_types
        return secured(self._clock, self._handlers, self._options)

    def _opened(self, connection: Connection) -> None:
        if self._is_closed:  # it was accepted just before the listening socket closed
            connection.abort("the server stops")
            return
        if len(self.connections) >= self._connections_max:
            self.refused_count += 1
            self._peer_log.warning(
                connection.remote_address,
                "refusing %s: %d connections are open, which is the limit",
                connection.remote_address,
                self._connections_max,
            )
            connection.abort("too many connections")
            return
        host = connection.remote_address.rpartition(":")[0]
        if self._of_address[host] >= self._of_address_max:
            self.refused_count += 1
            self._peer_log.warning(
                connection.remote_address,
                "refusing %s: it has %d connections, which is the limit of an address",
                connection.remote_address,
                self._of_address_max,
            )
            connection.abort("too many connections of one address")
            return
        self._of_address[host] += 1
        self.connections[connection] = None
        if len(self.connections) > self._tuned_for:
            self._tune()
        elif self._pause_size != self._limits.write_pause_size:
            connection.set_pause_size(self._pause_size)

    def _tune(self) -> None:
        """Sets the connections' pause sizes anew, each time that there are twice as many."""
        before = self._pause_size
        self._tuned_for = 2 * len(self.connections)
        self._pause_size = self._slow_readers.pause_size(
            self._tuned_for, self._limits.write_pause_size
        )
        if self._pause_size != before:
            for connection in list(self.connections):
                connection.set_pause_size(self._pause_size)

    def _closed(self, connection: Connection) -> None:
        if connection in self.connections:
            del self.connections[connection]
            self._forget_address(connection.remote_address.rpartition(":")[0])
            if len(self.connections) < self._tuned_for // RETUNED_BELOW:
                self._tune()
            if self._on_close is not None:
                self._on_close(connection)

    def _forget_address(self, host: str) -> None:
        self._of_address[host] -= 1
        if not self._of_address[host]:
            del self._of_address[host]

    async def close(self) -> None:
        """Stops listening, sends what is queued and closes every connection. Idempotent."""
        self._is_closed = True
        servers, self._servers = self._servers, []
        for server in servers:
            server.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        connections = list(self.connections)
        for connection in connections:
            connection.close("the server stops")
        for connection in connections:
            await connection.wait_closed()
        for server in servers:
            await server.wait_closed()
