"""The port of the gRPC service; what serves it is loaded with the first connection.

Until then it costs a listening socket: who has no clients of RocketMQ 5's SDKs pays nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol

from pocketmq.auth.guard import Guard
from pocketmq.broker.registration.routes import TopicRoutes
from pocketmq.protocol.messages.hosts import check_port, join_address
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import Handlers
from pocketmq.transport.tls.listener import bind

log = logging.getLogger("pocketmq.broker")

BACKLOG = 1024


class Wiring(NamedTuple):
    """What the service is built of, besides the parts of the broker.

    Attributes:
        handlers: of the broker, for users that are known.
        routes: of topics.
        guard: knows the users; None if everybody may ask for everything.
    """

    handlers: Handlers
    routes: TopicRoutes
    guard: Guard | None


class Served(Protocol):
    """What serves a port."""

    async def close(self) -> None:
        """Ends it."""


Load = Callable[[Sequence[socket.socket]], Awaitable[Served]]
"""Loads and starts the service on listening sockets."""


class GrpcEndpoint:
    """Listens, and loads the service when the first client comes.

    Args:
        load: loads it.

    Attributes:
        address: of the first socket, ``host:port``; empty before `listen`.
        is_loaded: whether a client has come.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._sockets: list[socket.socket] = []
        self._served: Served | None = None
        self._tasks = Tasks()
        self.address = ""
        self.is_loaded = False

    async def listen(self, host: str, port: int) -> None:
        """Binds an address; port 0 lets the system choose.

        Raises:
            ConfigError: the port is none.
            OSError: the address is in use or not of this machine.
        """
        check_port(port, "the gRPC endpoint")
        self._sockets = await bind(host, port, BACKLOG)
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.add_reader(one, self._first_comes)
        bound_host, bound_port = self._sockets[0].getsockname()[:2]
        self.address = join_address(bound_host, bound_port)

    @property
    def port(self) -> int:
        """The port of the first socket."""
        return int(self.address.rpartition(":")[2])

    def _first_comes(self) -> None:
        loop = asyncio.get_running_loop()
        for one in self._sockets:
            loop.remove_reader(one)
        self.is_loaded = True
        self._tasks.spawn(self._start(), "load the gRPC endpoint")

    async def _start(self) -> None:
        sockets, self._sockets = self._sockets, []
        self._served = await self._load(sockets)
        log.info("the gRPC endpoint at %s is loaded", self.address)

    async def close(self) -> None:
        """Stops listening, and ends the service. Idempotent."""
        await self._tasks.close()
        loop = asyncio.get_running_loop()
        sockets, self._sockets = self._sockets, []
        for one in sockets:
            loop.remove_reader(one)
            one.close()
        served, self._served = self._served, None
        if served is not None:
            await served.close()
