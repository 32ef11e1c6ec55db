"""A cluster with its control API, and a client of it in a few lines."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pocketmq.testing import Cluster, LocalCluster
from pocketmq.testing.control.cluster_calls import Ends
from pocketmq.testing.control.server import ControlServer

TIMEOUT_S = 60.0


class Answer(NamedTuple):
    """What came back."""

    status: int
    kind: str
    content: Any


class Control:
    """Asks a control API.

    Args:
        address: ``host:port``.
    """

    def __init__(self, address: str) -> None:
        self.address = address

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request; `raw` is a body as it is, `headers` come instead of or beside the usual."""
        connection = http.client.HTTPConnection(self.address, timeout=TIMEOUT_S)
        content = raw if body is None else json.dumps(body).encode()
        usual = {} if content is None else {"Content-Type": "application/json"}
        try:
            connection.request(method, path, content, {**usual, **(headers or {})})
            response = connection.getresponse()
            text = response.read()
            kind = response.headers.get_content_type()
            return Answer(response.status, kind, json.loads(text))
        finally:
            connection.close()

    def ok(self, method: str, path: str, body: object = None) -> Any:
        """What a request gives that is carried out."""
        answer = self.ask(method, path, body)
        assert answer.status < 300, answer
        assert answer.kind == "application/json"
        return answer.content

    def problem(self, method: str, path: str, body: object = None, **given: Any) -> Any:
        """The problem that a request is answered with."""
        answer = self.ask(method, path, body, **given)
        assert answer.status >= 400, answer
        assert answer.kind == "application/problem+json"
        assert answer.content["status"] == answer.status
        assert all(answer.content[member] for member in ("title", "detail", "remedy"))
        return answer.content


class Controlled(NamedTuple):
    """A cluster of this process and its control API.

    Attributes:
        stops: how often a client wanted it stopped.
    """

    cluster: Cluster
    control: Control
    server: ControlServer
    stops: list[bool]


@contextmanager
def controlled(host: str = "127.0.0.1", **options: Any) -> Iterator[Controlled]:
    """Runs a cluster with its control API."""
    with LocalCluster(**options) as cluster:
        stops: list[bool] = []
        server = ControlServer(cluster.core, host, 0, Ends(lambda: stops.append(True)))
        cluster.thread.run(server.__aenter__())
        port = server.address.rpartition(":")[2]
        try:
            yield Controlled(cluster, Control(f"127.0.0.1:{port}"), server, stops)
        finally:
            cluster.thread.run(server.__aexit__())
