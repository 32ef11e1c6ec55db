"""Serves the control API of a cluster in the cluster's own loop."""

from __future__ import annotations

import logging
from typing import Self

from pocketmq.console.web.app import api_app
from pocketmq.console.web.gate import Gate, is_loopback
from pocketmq.console.web.operations import Api
from pocketmq.console.web.server import WebServer
from pocketmq.testing.control.calls import ControlCalls
from pocketmq.testing.control.cluster_calls import NO_ENDS, Ends
from pocketmq.testing.core import Core

log = logging.getLogger("pocketmq.testing")

CONTROL_API = Api(
    name="control API",
    title="PocketMQ control API",
    summary="A message broker cluster for tests: its time, its faults and its contents.",
    when_refused="see which faults are in force (GET /faults), and what the detail says",
    when_failed="see which brokers run (GET /health) and which faults are in force (GET /faults)",
    when_remote="start it with --control-host, in a network that you trust",
    when_mistaken="report it with what `pocketmq up` has logged",
)


class ControlServer:
    """Serves the control API within ``async with ControlServer(core, host, port, ends)``.

    Args:
        core: the running cluster.
        host: the address to listen on.
        port: 0 lets the system choose.
        ends: the calls to the process that runs the cluster.

    Attributes:
        calls: carry the operations out.
        operations: all of them.
    """

    def __init__(self, core: Core, host: str, port: int, ends: Ends = NO_ENDS) -> None:
        self._host, self._port = host, port
        self.calls = ControlCalls(core, ends)
        self.operations = self.calls.operations()

    async def __aenter__(self) -> Self:
        """Starts to listen.

        Raises:
            ConfigError: the address is in use.
        """
        app = api_app(self.operations, Gate(self._host, CONTROL_API), CONTROL_API)
        remedy = "choose another --control PORT, or 0, and the system chooses a free one"
        self._server = WebServer(app, self._host, self._port, "the control API", remedy)
        await self._server.__aenter__()
        self.address = self._server.address
        if not is_loopback(self._host):
            log.warning(
                "the control API on %s asks nobody for a password: whoever reaches it may empty "
                "and stop this cluster",
                self.address,
            )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        for text in self.calls.faults.unused():
            log.warning("%s", text)
        self.calls.faults.forget()
        await self._server.__aexit__(*exc_info)
        await self.calls.clients.close()
