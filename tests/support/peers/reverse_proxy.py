"""A reverse proxy: serves another server under a path, which it takes away from requests."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class ReverseProxy(ThreadingHTTPServer):
    """Forwards what is asked below a path; everything else is not found.

    Args:
        path: such as ``/mq``.
        sets_prefix: whether it says the path in X-Forwarded-Prefix.

    Attributes:
        upstream: ``host:port`` of the other server.
        origin: where browsers find the proxy.
        elsewhere: paths that were asked for beside that path.
    """

    daemon_threads = True

    def __init__(self, path: str, *, sets_prefix: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.path, self.sets_prefix = path, sets_prefix
        self.upstream = ""
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self.elsewhere: list[str] = []


class _Forwarding(BaseHTTPRequestHandler):
    server: ReverseProxy

    def _forward(self) -> None:
        proxy = self.server
        if not self.path.startswith(f"{proxy.path}/"):
            proxy.elsewhere.append(self.path)
            self.send_error(404)
            return
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        if proxy.sets_prefix:
            headers["X-Forwarded-Prefix"] = proxy.path
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        connection = http.client.HTTPConnection(proxy.upstream, timeout=60)
        try:
            connection.request(self.command, self.path[len(proxy.path) :], body, headers)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _forward  # noqa: N815 - as http.server calls them

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


@contextmanager
def reverse_proxy(path: str, *, sets_prefix: bool = False) -> Iterator[ReverseProxy]:
    """Runs a proxy for the length of the block."""
    with ReverseProxy(path, sets_prefix=sets_prefix) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, args=(0.01,), name="proxy")
        thread.start()
        try:
            yield proxy
        finally:
            proxy.shutdown()
            thread.join()
