"""Links between members of broker sets in a test cluster: real connections, slow or cut."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from socket import SO_LINGER, SOL_SOCKET

import pytest
import pytest_asyncio

from pocketmq.protocol.messages.hosts import split_address
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.brokers.links import Links
from pocketmq.testing.clock import settle

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

RESET_WHEN_CLOSED = struct.pack("ii", 1, 0)


class Ends:
    """Dials over the link between two places."""

    def __init__(self) -> None:
        self.accepted: asyncio.Queue[Streams] = asyncio.Queue()
        self.links: Links

    async def __aenter__(self) -> Ends:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.accepted.put_nowait((reader, writer))

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:{1}".format(*self._server.sockets[0].getsockname())
        self.links = Links(SystemClock(), {self.address: "far"}.get)
        return self

    async def dial(self) -> tuple[Streams, Streams]:
        """A connection from the place `near` to the place `far`; returns both ends."""
        host, port = split_address(await self.links.way("near", self.address))
        near = await asyncio.open_connection(host, port)
        return near, await self.accepted.get()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self.links.close()


@pytest_asyncio.fixture
async def ends() -> AsyncIterator[Ends]:
    async with Ends() as ends:
        yield ends


async def test_what_was_sent_over_a_cut_link_arrives_when_it_is_healed(ends: Ends) -> None:
    near, far = await ends.dial()
    link = ends.links.between("near", "far")
    link.cut()
    near[1].write(b"late")
    waiting = asyncio.ensure_future(far[0].readexactly(4))
    await settle(20)
    assert not waiting.done()
    link.heal()
    assert await waiting == b"late"
    for _, writer in (near, far):
        writer.close()


async def test_bytes_for_a_connection_that_was_reset_are_lost_without_an_error(
    ends: Ends, caplog: pytest.LogCaptureFixture
) -> None:
    near, far = await ends.dial()
    far[1].write(b"hello")
    assert await near[0].readexactly(5) == b"hello"
    link = ends.links.between("near", "far")
    link.cut()
    far[1].write(b"in vain")
    near[1].get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, RESET_WHEN_CLOSED)
    near[1].close()
    await near[1].wait_closed()
    await settle(50)
    link.heal()
    assert await far[0].read() == b""
    far[1].close()
    await ends.links.close()
    assert not caplog.records
