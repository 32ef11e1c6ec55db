"""What peers of a web server may let wait, and how many there may be; headers of all answers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import pytest_asyncio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from support.peers.transport import until

from pocketmq.console.web import connections, request_limit
from pocketmq.console.web.connections import REQUEST_S, UNTAKEN_S
from pocketmq.console.web.server import WebServer
from pocketmq.testing.clock import VirtualClock

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n"
LARGE_SIZE = 32 * 1024 * 1024
"""More than the buffers of both ends take."""


class Site:
    """A server whose answers wait until a test says."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.requests = 0
        routes = [
            Route("/", self._small, methods=["GET", "POST"]),
            Route("/large", self._large),
            Route("/broken", self._broken),
        ]
        self.app = Starlette(routes=routes)

    async def _small(self, request: Request) -> Response:
        self.requests += 1
        await request.body()
        await self.go_on.wait()
        return PlainTextResponse("hello", headers={"X-Frame-Options": "SAMEORIGIN"})

    async def _large(self, _: Request) -> Response:
        return Response(b"x" * LARGE_SIZE)

    async def _broken(self, _: Request) -> Response:
        raise ValueError("a mistake")


Dial = Callable[[], Awaitable["Peer"]]


class Peer:
    """A client made of a bare socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def head(self) -> str:
        """The status line and headers of an answer."""
        return (await self._reader.readuntil(b"\r\n\r\n")).decode()

    async def rest(self) -> bytes:
        """All until the server closes."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
def site() -> Site:
    return Site()


@pytest_asyncio.fixture
async def dial(site: Site, clock: VirtualClock) -> AsyncIterator[Dial]:
    peers: list[Peer] = []
    async with WebServer(site.app, "127.0.0.1", 0, "the site", "-", clock) as server:
        host, _, port = server.address.rpartition(":")

        async def dial() -> Peer:
            opened = socket.socket()
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 * 1024)
            opened.setblocking(False)
            await asyncio.get_running_loop().sock_connect(opened, (host, int(port)))
            peers.append(Peer(*await asyncio.open_connection(sock=opened, limit=16 * 1024)))
            return peers[-1]

        yield dial
        for peer in peers:
            peer.close()


@pytest.mark.parametrize("begun", [b"", GET[:20], POST + b"12345"])
async def test_a_request_that_does_not_come_is_not_waited_for(
    dial: Dial, clock: VirtualClock, begun: bytes
) -> None:
    peer = await dial()
    peer.send(begun)
    await until(lambda: clock.pending_timers)
    await clock.advance(REQUEST_S - 1)
    peer.send(b"")
    rest = asyncio.create_task(peer.rest())
    await clock.advance(0.5)
    assert not rest.done()
    await clock.advance(1)
    assert await rest == b""


async def test_a_request_that_is_complete_may_take_long(
    dial: Dial, clock: VirtualClock, site: Site
) -> None:
    site.go_on.clear()
    peer = await dial()
    peer.send(POST + b"0123456789")
    await until(lambda: site.requests)
    await until(lambda: not clock.pending_timers)
    await clock.advance(10 * REQUEST_S)
    site.go_on.set()
    assert (await peer.head()).startswith("HTTP/1.1 200")
    peer.send(GET)
    await until(lambda: site.requests == 2)
    await until(lambda: clock.pending_timers)  # the next request is waited for, and no longer


async def test_an_answer_that_is_not_read_is_not_kept(dial: Dial, clock: VirtualClock) -> None:
    peer = await dial()
    peer.send(b"GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await peer.head()
    await until(lambda: clock.pending_timers)
    await clock.advance(UNTAKEN_S + REQUEST_S)
    assert len(await peer.rest()) < LARGE_SIZE


async def test_there_are_so_many_connections(dial: Dial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_MAX", 2)
    first, _ = await dial(), await dial()
    third = await dial()
    assert await third.rest() == b""
    first.send(GET)
    assert (await first.head()).startswith("HTTP/1.1 200")
    first.close()


async def test_there_are_so_many_requests(
    dial: Dial, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_limit, "REQUESTS_MAX", 1)
    site.go_on.clear()
    first, second = await dial(), await dial()
    first.send(GET)
    await until(lambda: site.requests)
    second.send(GET)
    refused = await second.head()
    assert refused.startswith("HTTP/1.1 503")
    assert "retry-after: 1" in refused
    assert_secure(refused)
    site.go_on.set()
    assert (await first.head()).startswith("HTTP/1.1 200")
    third = await dial()
    third.send(GET)
    assert (await third.head()).startswith("HTTP/1.1 200")


def assert_secure(head: str) -> None:
    """Each answer forbids to be framed, guessed, kept, or loaded by another site."""
    lines = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
    assert "default-src 'none'" in lines["content-security-policy"]
    assert "frame-ancestors 'none'" in lines["content-security-policy"]
    assert lines["x-content-type-options"] == "nosniff"
    assert lines["cross-origin-resource-policy"] == "same-origin"
    assert lines["cross-origin-opener-policy"] == "same-origin"
    assert lines["referrer-policy"] == "same-origin"
    assert lines["cache-control"] in ("no-store", "no-cache")


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET /nowhere HTTP/1.1", 404),
        (b"PATCH / HTTP/1.1", 405),
        (b"GET /broken HTTP/1.1", 500),
        (b"GET  / HTTP/9", 400),
        (b"\x16\x03\x01", 400),  # the beginning of TLS
    ],
)
async def test_errors_are_secure(dial: Dial, request_line: bytes, status: int) -> None:
    peer = await dial()
    peer.send(request_line + b"\r\nHost: localhost\r\n\r\n")
    head = await peer.head()
    assert head.startswith(f"HTTP/1.1 {status}")
    assert_secure(head)


async def test_headers_are_bounded(dial: Dial) -> None:
    peer = await dial()
    peer.send(b"GET / HTTP/1.1\r\nX-Long: " + b"x" * 20_000)
    head = await peer.head()
    assert head.startswith("HTTP/1.1 400")
    assert_secure(head)


async def test_an_answer_may_have_headers_of_its_own(dial: Dial) -> None:
    peer = await dial()
    peer.send(GET)
    head = await peer.head()
    assert "x-frame-options: SAMEORIGIN" in head
    assert "DENY" not in head
    assert_secure(head)
