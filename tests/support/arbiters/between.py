"""A relay before a server: holds requests back, or loses answers, on a test's order."""

from __future__ import annotations

import asyncio
from types import TracebackType

HOST = "127.0.0.1"
READ_SIZE = 64 * 1024


class Relay:
    """Passes the bytes of connections on to an address.

    Args:
        target: ``host:port``.

    Attributes:
        held: requests with these bytes in them wait until `release`; None for none.
        lost: answers are not passed on.
        seen: how many requests were held.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self.held: bytes | None = None
        self.lost = False
        self.seen = 0
        self._released = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where the relay listens."""
        assert self._server is not None
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def release(self) -> None:
        """Passes on what was held."""
        self.held = None
        self._released.set()

    async def passed_on(self) -> None:
        """Returns when what was held has been passed on, and answered."""
        while self._late:
            await asyncio.wait(tuple(self._late))

    async def __aenter__(self) -> Relay:
        self._server = await asyncio.start_server(self._take, HOST, 0)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        answers, requests = await asyncio.open_connection(*self._target)
        back = asyncio.ensure_future(self._pass_back(answers, writer))
        try:
            while data := await reader.read(READ_SIZE):
                if self.held is not None and self.held in data:
                    self.seen += 1
                    self._late.add(task)
                    await self._released.wait()
                requests.write(data)
            requests.write_eof()
            await back
        finally:
            back.cancel()
            requests.close()
            writer.close()
            self._late.discard(task)

    async def _pass_back(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await answers.read(READ_SIZE):
            if not self.lost:
                writer.write(data)
