"""How servers say that they are up, and who else is told: service managers and probes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import typer

from pocketmq.runtime.clock import SystemClock
from pocketmq.transport.errors import CannotListenError

if TYPE_CHECKING:
    from pocketmq.runtime.supervision.probes import ProbeConfig
    from pocketmq.runtime.supervision.service_manager import ServiceManager

STARTING, DRAINING = "starting", "draining"


class Serving:
    """The process of a server, as others see it: starting, up, stopping.

    Enter it before the server: probes are answered, and signs of life given, until the server has
    stopped. What is not wanted is not loaded.

    Args:
        stop: set when the server is to stop.
        probes: the settings of the probes; None for a server without.
        obstacles: see `Probes`; asked only while the server is up.
    """

    def __init__(
        self,
        stop: asyncio.Event,
        probes: ProbeConfig | None = None,
        obstacles: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._stop, self._config, self._obstacles = stop, probes, obstacles
        self._stack = AsyncExitStack()
        self._manager: ServiceManager | None = None
        self._is_up = False

    async def __aenter__(self) -> Serving:
        if "NOTIFY_SOCKET" in os.environ:
            from pocketmq.runtime.supervision.service_manager import ServiceManager

            self._manager = ServiceManager.of_environment(os.environ)
        if self._manager is not None:
            self._stack.push_async_callback(self._manager.close)
        config = self._config
        if config is not None and config.health_port:
            from pocketmq.runtime.supervision.probes import Probes

            host, port = config.health_host, config.health_port
            try:
                await self._stack.enter_async_context(Probes(host, port, self._in_the_way))
            except OSError as e:
                raise CannotListenError("the probes (healthPort)", host, port, e) from e
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def _in_the_way(self) -> Sequence[str]:
        if self._stop.is_set():
            return (DRAINING,)
        return self._obstacles() if self._is_up else (STARTING,)

    async def until_stopped(self, line: str) -> None:
        """Says that the server is up, and returns when it is to stop.

        Args:
            line: for standard output, and for the service manager; empty if it was said already.
        """
        self._is_up = True
        if line:
            typer.echo(line)
        if self._manager is not None:
            self._manager.serving(SystemClock(), line or "up")
        await self._stop.wait()
        if self._manager is not None:
            self._manager.stopping()
