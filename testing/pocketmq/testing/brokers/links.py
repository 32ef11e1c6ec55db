"""The network between the members of broker sets, and the arbiter: links that are slow or cut.

Whoever dials over a link gets a relay on the loopback address, a real connection on either side.
What is on its way when a link is cut arrives when the link is healed, as with TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from pocketmq.protocol.messages.hosts import split_address
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks

PART_SIZE = 64 * 1024
"""Bytes that are passed on at once."""

PARTS_MAX = 256
"""Parts of one direction that are on their way; then the sender has to wait."""

LOCALHOST = "127.0.0.1"

ARBITER = "arbiter"
"""The name of the arbiter's end of a link."""


class Link:
    """What lies between two places, in both directions.

    Attributes:
        delays_s: how much longer bytes take, one for each fault in force; they add up.
    """

    def __init__(self) -> None:
        self.delays_s: list[float] = []
        self._cuts = 0
        self._whole = asyncio.Event()
        self._whole.set()

    @property
    def is_cut(self) -> bool:
        """Whether nothing arrives."""
        return not self._whole.is_set()

    async def passable(self) -> None:
        """Returns when the link is not cut."""
        await self._whole.wait()

    def cut(self) -> None:
        """Lets nothing pass, until `heal` was called as often."""
        self._cuts += 1
        self._whole.clear()

    def heal(self) -> None:
        """Ends one cut."""
        self._cuts -= 1
        if not self._cuts:
            self._whole.set()


class Links:
    """All links of a cluster.

    Args:
        clock: by which bytes are late.
        name_of: the name of the place with an address; None for a place without links.
    """

    def __init__(self, clock: Clock, name_of: Callable[[str], str | None]) -> None:
        self._clock, self._name_of = clock, name_of
        self._links: dict[frozenset[str], Link] = {}
        self._relays = Tasks()

    def between(self, one: str, other: str) -> Link:
        """The link between two places."""
        return self._links.setdefault(frozenset((one, other)), Link())

    def of(self, name: str, names: Iterator[str]) -> list[Link]:
        """The links between one place and others."""
        return [self.between(name, other) for other in names if other != name]

    async def close(self) -> None:
        """Ends all relays."""
        await self._relays.close()

    async def way(self, near: str, address: str) -> str:
        """Where a place dials for an address.

        Args:
            near: the name of the place.
            address: ``host:port`` of another one.

        Raises:
            OSError: nobody listens there.
        """
        far = self._name_of(address)
        if far is None:
            return address
        link = self.between(near, far)
        await link.passable()
        host, port = split_address(address)
        reader, writer = await asyncio.open_connection(host, port)
        accepted: asyncio.Future[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.get_running_loop().create_future()
        )

        def accept(near_reader: asyncio.StreamReader, near_writer: asyncio.StreamWriter) -> None:
            if accepted.done():
                near_writer.close()
            else:
                accepted.set_result((near_reader, near_writer))

        server = await asyncio.start_server(accept, LOCALHOST, 0)

        async def relay() -> None:
            try:
                near_reader, near_writer = await accepted
                server.close()
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_on(link, near_reader, writer))
                    group.create_task(self._pass_on(link, reader, near_writer))
            finally:
                server.close()
                writer.close()
                if accepted.done() and not accepted.cancelled():
                    accepted.result()[1].close()

        self._relays.spawn(relay(), f"relay from {near} to {far}")
        return f"{LOCALHOST}:{server.sockets[0].getsockname()[1]}"

    async def _pass_on(
        self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Passes on one direction until it ends, each part when its time has come."""
        parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(PARTS_MAX)

        async def take() -> None:
            while True:
                data = b""
                with contextlib.suppress(OSError):  # a reset is an end, too
                    data = await reader.read(PART_SIZE)
                await parts.put((self._clock.monotonic() + sum(link.delays_s), data))
                if not data:
                    return

        async def give() -> None:
            while True:
                due_s, data = await parts.get()
                if (late_s := due_s - self._clock.monotonic()) > 0:
                    await self._clock.sleep(late_s)
                await link.passable()
                if not data:
                    writer.close()
                    return
                if writer.is_closing():  # it was reset: bytes for it are lost, as with TCP
                    continue
                writer.write(data)
                with contextlib.suppress(OSError):
                    await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(take())
            group.create_task(give())
