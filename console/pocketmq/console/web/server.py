"""Serves an application over HTTP in the loop that is running."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from pocketmq.console.web.connections import BoundedConnection
from pocketmq.console.web.request_limit import RequestLimit
from pocketmq.console.web.secure_headers import SecureHeaders
from pocketmq.console.web.visitors import Visitors
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import check_port, join_address
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.transport.errors import CannotListenError

STOP_TIMEOUT_S = 2
"""Seconds that a stop waits for answers that are under way."""


class WebServer:
    """Serves an application within ``async with WebServer(app, host, port, name, remedy)``.

    Args:
        app: the application.
        host: the address to listen on.
        port: 0 lets the system choose.
        name: of the server in errors, such as ``the control API``.
        remedy: how another port is chosen, when this one is in use.
        clock: tells how long peers let the server wait.
        measured: makes an application that is measured of one that is not.

    Attributes:
        address: ``host:port``, while it listens.
    """

    def __init__(
        self,
        app: ASGIApp,
        host: str,
        port: int,
        name: str,
        remedy: str,
        clock: Clock | None = None,
        measured: Callable[[ASGIApp], ASGIApp] | None = None,
    ) -> None:
        self._app: ASGIApp = SecureHeaders(RequestLimit(Visitors(app)))
        if measured is not None:
            self._app = measured(self._app)
        self._host, self._port = host, port
        self._name, self._remedy = name, remedy
        self._clock = clock or SystemClock()
        self.address = ""

    async def __aenter__(self) -> Self:
        """Starts to listen.

        Raises:
            ConfigError: the address is in use.
        """
        listening = self._listen()
        self.address = join_address(self._host, listening.getsockname()[1])

        class Connection(BoundedConnection):
            clock = self._clock

        config = uvicorn.Config(
            self._app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # Java's client asks for HTTP/2 each time, which would be warned of
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        # Its `serve` would take the signals over and look every 0.1 s whether it shall stop.
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[listening])
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._server.shutdown()

    def _listen(self) -> socket.socket:
        host, port = self._host, self._port
        check_port(port, self._name)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.socket(family)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
        except OSError as e:
            listening.close()
            seen = CannotListenError(self._name, host, port, e).seen
            raise ConfigError(f"{seen}; {self._remedy}") from e
        listening.setblocking(False)
        return listening
