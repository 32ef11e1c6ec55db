"""The port on which metrics are scraped: HTTP/1.1, GET and HEAD, one answer a connection.

A scrape needs no web server: each request is read within limits, and costs what its page costs.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pocketmq.protocol.errors import OperatingError, UsageError
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.metrics.exposition import Exposition, Format
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.metrics")

HEAD_SIZE_MAX = 8192
"""Bytes of a request's line and fields."""

SCRAPERS_MAX = 16
"""Open connections; a further one is told to come again."""

READ_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 30.0

_REASONS = {
    200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 431: "Request Header Fields Too Large",
    500: "Internal Server Error", 503: "Service Unavailable",
}  # fmt: skip


class ScrapeRequest(NamedTuple):
    """What a scraper asks for.

    Attributes:
        path: of the address, without the query.
        query: its parameters; of one that is repeated, the last value.
        written_as: the format that the scraper takes.
        takes_gzip: whether the answer may be compressed.
    """

    path: str
    query: Mapping[str, str]
    written_as: Format
    takes_gzip: bool


Page = Callable[[ScrapeRequest], Awaitable[bytes | None]]
"""Returns the text for a request, compressed if the request takes that; None for no such path."""


async def only_page(
    request: ScrapeRequest, clock: Clock, figures: Callable[[Exposition], Iterator[int]]
) -> bytes | None:
    """Writes ``/metrics``, of a server that has no other page; None for other paths.

    Args:
        request: of the scraper.
        clock: of the server.
        figures: the source of the page, see `Exposition.write`.
    """
    if request.path != "/metrics":
        return None
    out = Exposition(request.written_as, clock, is_compressed=request.takes_gzip)
    await out.write(figures(out))
    return out.end()


class _Answer(NamedTuple):
    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    is_gzip: bool = False


class ScrapeEndpoint:
    """Listens for scrapers and answers them with a page; pages are written one after the other.

    Args:
        page: writes what is asked for. A `UsageError` of the page is answered with 400.
        clock: the machine's, for limits of time.

    Attributes:
        port: that it listens on; 0 before `listen`.
    """

    def __init__(self, page: Page, clock: Clock) -> None:
        self._page, self._clock = page, clock
        self._tasks, self._turn = Tasks(), asyncio.Lock()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, host: str, port: int) -> None:
        """Binds an address; port 0 lets the system choose.

        Raises:
            OSError: the address is in use or not of this machine.
        """
        self._server = await asyncio.start_server(
            self._accept, host, port, limit=HEAD_SIZE_MAX, backlog=SCRAPERS_MAX
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Frees the port and drops the scrapers. Idempotent."""
        if self._server is not None:
            self._server.close()
        await self._tasks.close()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.spawn(self._serve(reader, writer, len(self._tasks)), "scrape")

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, others: int
    ) -> None:
        try:
            method, answer = await self._answer(reader, others)
            writer.write(_head(answer) + (b"" if method == "HEAD" else answer.body))
            await within(self._clock, WRITE_TIMEOUT_S, writer.drain())
            writer.close()
            await within(self._clock, WRITE_TIMEOUT_S, writer.wait_closed())
        except (ConnectionError, TimeoutError, EOFError):
            log.debug("a scraper went away before it had its answer")
        finally:
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, others: int) -> tuple[str, _Answer]:
        if others >= SCRAPERS_MAX:
            return "", _refusal(503, f"{SCRAPERS_MAX} scrapers are being served: come again later")
        try:
            head = await within(self._clock, READ_TIMEOUT_S, reader.readuntil(b"\r\n\r\n"))
        except TimeoutError:
            return "", _refusal(408, f"the request did not come within {READ_TIMEOUT_S:g} s")
        except asyncio.LimitOverrunError:
            return "", _refusal(431, f"the request has more than {HEAD_SIZE_MAX} bytes")
        method, request = _parsed(head.decode("latin-1"))
        if request is None:
            return method, _refusal(400, "this is no request of HTTP/1")
        if method not in ("GET", "HEAD"):
            return method, _refusal(405, "metrics can only be read: use GET")
        return method, await self._page_of(request)

    async def _page_of(self, request: ScrapeRequest) -> _Answer:
        try:
            async with self._turn:
                body = await self._page(request)
        except UsageError as e:
            return _refusal(400, str(e))
        except (OperatingError, OSError) as e:
            log.warning("a scrape of %s failed: %s", request.path, e)
            return _refusal(500, str(e))
        if body is None:
            return _refusal(404, "there is nothing here: see /metrics")
        return _Answer(200, body, request.written_as.value, request.takes_gzip)


def _refusal(status: int, text: str) -> _Answer:
    return _Answer(status, f"{text}\n".encode())


def _head(answer: _Answer) -> bytes:
    fields = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
    ]
    if answer.is_gzip:
        fields.append("Content-Encoding: gzip")
    if answer.status == 405:
        fields.append("Allow: GET, HEAD")
    return "\r\n".join([*fields, "", ""]).encode()


def _parsed(head: str) -> tuple[str, ScrapeRequest | None]:
    first, *rest = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1.") or not words[1].startswith("/"):
        return "", None
    method, target, _ = words
    fields = {
        name.strip().lower(): value.strip()
        for name, colon, value in (line.partition(":") for line in rest)
        if colon
    }
    parts = None
    with contextlib.suppress(ValueError):
        parts = urlsplit(target)
    if parts is None:
        return method, None
    takes_openmetrics = "application/openmetrics-text" in fields.get("accept", "")
    return method, ScrapeRequest(
        parts.path,
        dict(parse_qsl(parts.query)),
        Format.OPENMETRICS if takes_openmetrics else Format.TEXT,
        _takes_gzip(fields.get("accept-encoding", "")),
    )


def _takes_gzip(accepted: str) -> bool:
    for part in accepted.split(","):
        coding, _, weight = part.strip().partition(";")
        if coding.strip() == "gzip":
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
