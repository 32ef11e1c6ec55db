"""Serves the control API of a cluster in the cluster's own loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Self

import uvicorn

from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import check_port, join_address
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.control.app import control_app
from pocketmq.testing.control.clients import ControlClients
from pocketmq.testing.control.clock_calls import ClockCalls
from pocketmq.testing.control.cluster_calls import ClusterCalls, Ends
from pocketmq.testing.control.fault_calls import FaultCalls
from pocketmq.testing.control.gate import Gate, is_loopback
from pocketmq.testing.control.group_calls import GroupCalls
from pocketmq.testing.control.message_calls import MessageCalls
from pocketmq.testing.control.operations import Operation
from pocketmq.testing.control.topic_calls import TopicCalls
from pocketmq.testing.core import Core
from pocketmq.testing.inspection.inspection import Inspection
from pocketmq.transport.errors import CannotListenError

log = logging.getLogger("pocketmq.testing")

REQUESTS_MAX = 100
"""Requests under way, and connections, at a time; further ones are answered with 503."""

STOP_TIMEOUT_S = 2
"""Seconds that a stop waits for answers that are under way."""


NO_ENDS = Ends()


class ControlServer:
    """Serves the control API within ``async with ControlServer(core, host, port, ends)``.

    Args:
        core: the running cluster.
        host: the address to listen on.
        port: 0 lets the system choose.
        ends: the calls to the process that runs the cluster.
    """

    def __init__(self, core: Core, host: str, port: int, ends: Ends = NO_ENDS) -> None:
        self._host, self._port = host, port
        inspection = Inspection(core, Namespace(""))
        turn = asyncio.Lock()
        self._clients = ControlClients(core)
        self._faults = FaultCalls(core)
        clock = ClockCalls(core, inspection, turn)
        self.operations: list[Operation] = [
            *ClusterCalls(core, clock, self._faults, self._clients, turn, ends).operations(),
            *TopicCalls(core, inspection, self._clients).operations(),
            *MessageCalls(inspection, self._clients).operations(),
            *GroupCalls(core, inspection, self._clients).operations(),
            *clock.operations(),
            *self._faults.operations(),
        ]

    async def __aenter__(self) -> Self:
        """Starts to listen.

        Raises:
            ConfigError: the address is in use.
        """
        listening = _listen(self._host, self._port)
        self.address = join_address(self._host, listening.getsockname()[1])
        if not is_loopback(self._host):
            log.warning(
                "the control API on %s asks nobody for a password: whoever reaches it may empty "
                "and stop this cluster",
                self.address,
            )
        config = uvicorn.Config(
            control_app(self.operations, Gate(self._host)),
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",  # Java's client asks for HTTP/2 each time, which would be warned of
            access_log=False,
            server_header=False,
            limit_concurrency=REQUESTS_MAX,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        config.load()
        self._server = uvicorn.Server(config)
        # Its `serve` would take the signals over and look every 0.1 s whether it shall stop.
        self._server.lifespan = config.lifespan_class(config)
        await self._server.startup(sockets=[listening])
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for text in self._faults.unused():
            log.warning("%s", text)
        self._faults.forget()
        await self._server.shutdown()
        await self._clients.close()


def _listen(host: str, port: int) -> socket.socket:
    check_port(port, "the control API")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as e:
        listening.close()
        seen = CannotListenError("the control API", host, port, e).seen
        raise ConfigError(
            f"{seen}; choose another --control PORT, or 0, and the system chooses a free one"
        ) from e
    listening.setblocking(False)
    return listening
