"""A console whose time stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from support.brokers.control_parts import Control

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.testing import Cluster
from pocketmq.testing.clock import VirtualClock


class Timed:
    """The console.

    Attributes:
        cluster: what it shows.
        clock: its time.
        server: itself.
        opened: what closes connections that a test has left open.
    """

    def __init__(self, cluster: Cluster, **options: Any) -> None:
        self.cluster, self.clock = cluster, VirtualClock()
        self.opened: list[Callable[[], None]] = []
        self.server = ConsoleServer(
            cluster.namesrv, ConsoleOptions(**{"port": 0, **options}), self.clock
        )

    def advance(self, seconds: float) -> None:
        """Moves the time of the console, and of nobody else."""
        self.cluster.thread.run(self.clock.advance(seconds))

    @property
    def api(self) -> Control:
        """A client of its API."""
        return Control(self.server.address)


@contextmanager
def timed(cluster: Cluster, **options: Any) -> Iterator[Timed]:
    """Serves a cluster in the cluster's loop."""
    console = Timed(cluster, **options)
    cluster.thread.run(console.server.__aenter__())
    try:
        yield console
    finally:
        cluster.thread.run(console.server.__aexit__())
        for close in console.opened:
            close()
