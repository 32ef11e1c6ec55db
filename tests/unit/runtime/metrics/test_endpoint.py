from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from support.peers.transport import until

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.metrics.endpoint import (
    HEAD_SIZE_MAX,
    READ_TIMEOUT_S,
    SCRAPERS_MAX,
    Page,
    ScrapeEndpoint,
    ScrapeRequest,
)
from pocketmq.runtime.metrics.exposition import Format
from pocketmq.testing.clock import VirtualClock


@asynccontextmanager
async def serving(page: Page, clock: SystemClock | VirtualClock) -> AsyncIterator[ScrapeEndpoint]:
    endpoint = ScrapeEndpoint(page, clock)
    await endpoint.listen("127.0.0.1", 0)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def told(endpoint: ScrapeEndpoint, request: bytes) -> tuple[int, str, bytes]:
    """Returns the status, the fields and the body of the answer to a request."""
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ")[1]), head.decode().lower(), body


async def echo(request: ScrapeRequest) -> bytes | None:
    if request.path == "/wrong":
        raise UsageError("say which topic: ?topic=…")
    if request.path != "/metrics":
        return None
    return f"{dict(request.query)} {request.written_as.name} {request.takes_gzip}".encode()


@pytest.mark.parametrize(
    ("request_text", "status", "body"),
    [
        ("GET /metrics?topic=a%20b HTTP/1.1", 200, "{'topic': 'a b'} TEXT False"),
        (
            "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0,*/*;q=0.1"
            "\r\nAccept-Encoding: br, gzip;q=0.5",
            200,
            "{} OPENMETRICS True",
        ),
        ("GET /metrics HTTP/1.1\r\nAccept-Encoding: gzip;q=0", 200, "{} TEXT False"),
        ("HEAD /metrics HTTP/1.0", 200, ""),
        ("GET /other HTTP/1.1", 404, "there is nothing here: see /metrics\n"),
        ("POST /metrics HTTP/1.1", 405, "metrics can only be read: use GET\n"),
        ("GET /wrong HTTP/1.1", 400, "say which topic: ?topic=…\n"),
        ("GET http://[ HTTP/1.1", 400, "this is no request of HTTP/1\n"),
        ("GET //[ HTTP/1.1", 400, "this is no request of HTTP/1\n"),
        ("nonsense", 400, "this is no request of HTTP/1\n"),
    ],
)
async def test_requests_and_their_answers(request_text: str, status: int, body: str) -> None:
    async with serving(echo, SystemClock()) as endpoint:
        request = f"{request_text}\r\nHost: a\r\n\r\n".encode()
        found, head, given = await told(endpoint, request)
    assert (found, given.decode()) == (status, body)
    assert "connection: close" in head
    assert ("allow: get, head" in head) == (status == 405)
    if "OPENMETRICS" in body:
        assert f"content-type: {Format.OPENMETRICS.value}" in head
        assert "content-encoding: gzip" in head


async def test_a_request_that_is_too_large_is_refused() -> None:
    async with serving(echo, SystemClock()) as endpoint:
        request = b"GET /metrics HTTP/1.1\r\nX: " + b"x" * HEAD_SIZE_MAX + b"\r\n\r\n"
        status, _, body = await told(endpoint, request)
    assert status == 431
    assert str(HEAD_SIZE_MAX) in body.decode()


async def test_a_request_that_does_not_come_is_given_up(clock: VirtualClock) -> None:
    async with serving(echo, clock) as endpoint:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET /metrics")
        await until(lambda: clock.pending_timers)
        await clock.advance(READ_TIMEOUT_S)
        assert b" 408 " in await reader.read()
        writer.close()


async def test_scrapers_beyond_the_limit_are_told_to_come_again() -> None:
    release = asyncio.Event()

    async def held(request: ScrapeRequest) -> bytes:
        await release.wait()
        return b"done"

    request = b"GET /metrics HTTP/1.1\r\n\r\n"
    async with serving(held, SystemClock()) as endpoint:
        waiting = [asyncio.ensure_future(told(endpoint, request)) for _ in range(SCRAPERS_MAX + 1)]
        first, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert {task.result()[0] for task in first} == {503}
        release.set()
        answers = [await task for task in waiting]
    assert sorted(status for status, _, _ in answers) == [200] * SCRAPERS_MAX + [503]


async def test_a_scraper_that_goes_away_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(echo, SystemClock()) as endpoint:
        _, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(b"GET")
        writer.close()
        await writer.wait_closed()
        status, _, _ = await told(endpoint, b"GET /metrics HTTP/1.1\r\n\r\n")
    assert status == 200
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
