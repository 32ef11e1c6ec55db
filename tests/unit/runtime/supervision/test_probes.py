from __future__ import annotations

import asyncio
import contextlib

import pytest

from pocketmq.runtime.supervision.probes import (
    CONNECTIONS_MAX,
    REQUEST_SIZE_MAX,
    TIMEOUT_S,
    Probes,
)
from pocketmq.testing.clock import VirtualClock


async def ask(probes: Probes, head: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", probes.port)
    writer.write(head)
    answer = (await reader.read()).decode()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(" ")[1]), answer.partition("\r\n\r\n")[2].strip()


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: probes\r\n\r\n".encode()


async def test_a_server_is_ready_when_nothing_is_in_the_way() -> None:
    obstacles = ["starting", "the disk is full or fails"]
    async with Probes("127.0.0.1", 0, lambda: obstacles) as probes:
        assert await ask(probes, get("/live")) == (200, "ok")
        assert await ask(probes, get("/ready")) == (503, "starting\nthe disk is full or fails")
        obstacles.clear()
        assert await ask(probes, get("/ready?verbose")) == (200, "ok")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (get("/"), 404),
        (b"POST /ready HTTP/1.1\r\n\r\n", 405),
        (b"hello\r\n\r\n", 400),
        (b"GET /ready HTTP/2\r\n\r\n", 400),
        (b"x" * (REQUEST_SIZE_MAX + 1), 400),
    ],
)
async def test_what_is_no_probe_is_refused(head: bytes, status: int) -> None:
    async with Probes("127.0.0.1", 0, list) as probes:
        assert (await ask(probes, head))[0] == status


async def test_a_head_may_come_in_pieces() -> None:
    async with Probes("127.0.0.1", 0, list) as probes:
        reader, writer = await asyncio.open_connection("127.0.0.1", probes.port)
        for piece in (b"GET /re", b"ady HTTP/1.0\r\n", b"\r\n"):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
        await writer.wait_closed()


async def ends(reader: asyncio.StreamReader) -> bool:
    """Returns when the server has closed a connection: whether nothing came before."""
    with contextlib.suppress(ConnectionResetError):
        return await reader.read() == b""
    return True


async def test_silent_connections_are_few_and_end() -> None:
    clock = VirtualClock()
    async with Probes("127.0.0.1", 0, list, clock) as probes:
        address = ("127.0.0.1", probes.port)
        silent = [await asyncio.open_connection(*address) for _ in range(CONNECTIONS_MAX)]
        reader, writer = await asyncio.open_connection(*address)
        writer.write(get("/live"))
        assert await ends(reader)
        writer.close()
        await clock.advance(TIMEOUT_S + 1)
        for quiet, out in silent:
            assert await ends(quiet)
            out.close()
        assert await ask(probes, get("/live")) == (200, "ok")


async def test_the_end_of_the_server_ends_its_connections() -> None:
    async with Probes("127.0.0.1", 0, list) as probes:
        reader, writer = await asyncio.open_connection("127.0.0.1", probes.port)
        assert await ask(probes, get("/live")) == (200, "ok")
    assert await ends(reader)
    writer.close()
