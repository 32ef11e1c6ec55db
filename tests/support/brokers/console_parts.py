"""A cluster with a console, and a client of its API in a few lines."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from support.brokers.control_parts import Control

from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.testing import Cluster, LocalCluster

API = "/api/v1"


class Consoled(NamedTuple):
    """A cluster of this process and its console."""

    cluster: Cluster
    api: Control
    server: ConsoleServer


@contextmanager
def console(cluster: Cluster, **options: Any) -> Iterator[Consoled]:
    """Serves a cluster that runs, in the cluster's loop."""
    server = ConsoleServer(cluster.namesrv, ConsoleOptions(**{"port": 0, **options}))
    cluster.thread.run(server.__aenter__())
    try:
        yield Consoled(cluster, Control(server.address), server)
    finally:
        cluster.thread.run(server.__aexit__())


@contextmanager
def consoled(**options: Any) -> Iterator[Consoled]:
    """Runs a cluster with its console."""
    with LocalCluster(**options) as cluster, console(cluster) as running:
        yield running


def basic(user: str, password: str) -> dict[str, str]:
    """The header that names a user."""
    text = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {text}"}
