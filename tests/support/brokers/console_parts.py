"""A cluster with a console, and a client of its API in a few lines."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from support.brokers.control_parts import Answer, Control

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


class Asking:
    """A client of a console that is served in this loop.

    Args:
        server: the console.
        headers: of each request, if it has none of its own.
    """

    def __init__(self, server: ConsoleServer, headers: dict[str, str] | None = None) -> None:
        self._api, self._headers = Control(server.address), headers

    async def ask(
        self, path: str, headers: dict[str, str] | None = None, method: str = "GET",
        body: object = None,
    ) -> Answer:  # fmt: skip
        """One request."""
        given = headers or self._headers
        return await asyncio.to_thread(
            lambda: self._api.ask(method, API + path, body, headers=given)
        )

    async def ok(self, method: str, path: str, body: object = None) -> Any:
        """What a request gives that is carried out."""
        answer = await self.ask(path, None, method, body)
        assert answer.status < 300, answer
        return answer.content

    async def problem(self, method: str, path: str, body: object = None) -> Any:
        """The problem that a request is answered with."""
        answer = await self.ask(path, None, method, body)
        assert answer.status >= 400, answer
        assert all(answer.content[member] for member in ("title", "detail", "remedy"))
        return answer.content
