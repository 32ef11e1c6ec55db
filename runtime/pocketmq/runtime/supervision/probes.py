"""Answers probes over HTTP: whether a server lives, and whether it is ready.

For Kubernetes and load balancers, which ask every few seconds: a request costs some 0.1 ms, where
`pocketmq health` starts a process. Nobody is asked who he is, so the answers say little.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from pocketmq.runtime.clock import Clock, SystemClock, Timer

CONNECTIONS_MAX = 32
"""Further connections are closed at once."""

REQUEST_SIZE_MAX = 4096
"""Bytes of a request's head."""

TIMEOUT_S = 5.0
"""A connection is closed after so many seconds, whatever it did."""

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
_UNAVAILABLE = 503

Answer = tuple[int, str]


class ProbeConfig(Protocol):
    """The settings of a server's file about its probes."""

    @property
    def health_port(self) -> int: ...  # noqa: D102

    @property
    def health_host(self) -> str: ...  # noqa: D102


class Probes:
    """Listens for probes: ``async with Probes(host, port, obstacles):``.

    ``GET /live`` is answered 200 by every process whose loop turns; ``GET /ready`` 200 when there
    is no obstacle, else 503 with the obstacles, one a line.

    Args:
        host: the address to listen on.
        port: 0 lets the system choose.
        obstacles: returns what stands in the way of clients, in a few words each; nothing if they
            are served.
        clock: limits how long a connection lasts.

    Attributes:
        port: the port, once it listens.

    Raises:
        OSError: on entry, the address is in use.
    """

    def __init__(
        self,
        host: str,
        port: int,
        obstacles: Callable[[], Sequence[str]],
        clock: Clock | None = None,
    ) -> None:
        self._host, self.port, self._obstacles = host, port, obstacles
        self._clock: Clock = clock or SystemClock()
        self._connections: set[_ProbeConnection] = set()
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Probes:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _ProbeConnection(self._connections, self._answer, self._clock),
            self._host,
            self.port,
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
            for connection in tuple(self._connections):
                connection.close()
            await server.wait_closed()

    def _answer(self, path: str) -> Answer:
        if path == "/live":
            return 200, "ok"
        if path != "/ready":
            return 404, "there are /live and /ready"
        obstacles = self._obstacles()
        return (_UNAVAILABLE, "\n".join(obstacles)) if obstacles else (200, "ok")


class _ProbeConnection(asyncio.Protocol):
    """One connection: one request, one answer, and its end."""

    def __init__(
        self,
        connections: set[_ProbeConnection],
        answer: Callable[[str], Answer],
        clock: Clock,
    ) -> None:
        self._connections, self._answer, self._clock = connections, answer, clock
        self._transport: asyncio.WriteTransport | None = None
        self._head = b""
        self._timer: Timer | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no instances of asyncio's.
        transport = self._transport = cast(asyncio.WriteTransport, transport)
        if len(self._connections) >= CONNECTIONS_MAX:
            transport.abort()
            return
        self._connections.add(self)
        self._timer = self._clock.call_later(TIMEOUT_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" in self._head:
            self._write(*self._answered())
        elif len(self._head) > REQUEST_SIZE_MAX:
            self._write(400, f"the head of a request may have {REQUEST_SIZE_MAX} bytes")

    def _answered(self) -> Answer:
        line = self._head.partition(b"\r\n")[0].decode("latin-1").split(" ")
        if len(line) != 3 or not line[2].startswith("HTTP/1."):
            return 400, "the first line of a request is: GET /ready HTTP/1.1"
        method, target, _ = line
        if method != "GET":
            return 405, "there is GET only"
        return self._answer(target.partition("?")[0])

    def _write(self, status: int, text: str) -> None:
        assert self._transport is not None
        body = f"{text}\n".encode()
        reason = _REASONS.get(status, "Service Unavailable")
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        )
        self._transport.write(head.encode() + body)
        self._transport.close()

    def close(self) -> None:
        """Ends the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
