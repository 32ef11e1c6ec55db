"""Reads standard input and writes standard output as bytes without blocking the loop.

The loop's own `add_reader` would make the streams non-blocking for every process that shares them:
a thread polls them instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pocketmq.client.copying.message_files import LineSplitter

CHUNK_SIZE = 64 * 1024


class ReadyWatch:
    """Tells a coroutine when a descriptor is ready.

    Args:
        descriptor: the file descriptor.
        events: events of `select.poll`; errors and hang-ups always count.
    """

    def __init__(self, descriptor: int, events: int) -> None:
        self._loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._poll = select.poll()
        self._poll.register(descriptor, events)
        self._wake_reader, self._wake_writer = os.pipe()
        self._poll.register(self._wake_reader, select.POLLIN)
        self._asked = threading.Semaphore(0)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="pipes", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if not self._is_closed:
                self._poll.poll()
            if self._is_closed:
                return
            self._loop.call_soon_threadsafe(self._ready.set)

    async def wait(self) -> None:
        """Returns when the descriptor is ready."""
        self._ready.clear()
        self._asked.release()
        await self._ready.wait()

    def close(self) -> None:
        """Ends the thread."""
        self._is_closed = True
        os.write(self._wake_writer, b"x")
        self._asked.release()
        self._thread.join()
        os.close(self._wake_reader)
        os.close(self._wake_writer)


class InputPipe:
    """Reads standard input within ``async with InputPipe(stop) as source:``.

    Args:
        stop: ends reading.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop
        self._descriptor = sys.stdin.fileno()
        self._watch: ReadyWatch | None = None

    async def __aenter__(self) -> Self:
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):  # a file is always ready
            self._watch = ReadyWatch(self._descriptor, select.POLLIN)
        self._stopping = asyncio.ensure_future(self._stop.wait())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._stopping.cancel()
        if self._watch is not None:
            self._watch.close()

    async def read(self) -> bytes:
        """Returns the next bytes; none at the end, or once `stop` is set."""
        if self._watch is not None:
            waiting = asyncio.ensure_future(self._watch.wait())
            await asyncio.wait((waiting, self._stopping), return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
        return b"" if self._stop.is_set() else os.read(self._descriptor, CHUNK_SIZE)

    async def lines(self, splitter: LineSplitter) -> AsyncIterator[tuple[int, bytes]]:
        """Yields the lines that are not empty, with their numbers.

        Raises:
            UsageError: a line is too long.
        """
        while chunk := await self.read():
            for line in splitter.feed(chunk):
                if line:
                    yield splitter.number, line
        if not self._stop.is_set():
            for line in splitter.finish():
                yield splitter.number, line


class OutputPipe:
    """Writes standard output within ``async with OutputPipe(stop) as out:``.

    Args:
        stop: set when the reader of the pipe goes away, even if nothing is written any more.

    Attributes:
        is_closed: the reader went away.
    """

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop, self._out = stop, sys.stdout.buffer
        self._watch: ReadyWatch | None = None
        self._watching: asyncio.Task[None] | None = None
        self.is_closed = False

    async def __aenter__(self) -> Self:
        with contextlib.suppress(OSError, ValueError):  # tests put something there without a file
            descriptor = self._out.fileno()
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                self._watch = ReadyWatch(descriptor, 0)
                self._watching = asyncio.create_task(self._follow(self._watch))
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        if self._watch is not None and self._watching is not None:
            self._watching.cancel()
            self._watch.close()

    async def _follow(self, watch: ReadyWatch) -> None:
        await watch.wait()
        self.is_closed = True
        self._stop.set()

    def write(self, data: bytes) -> None:
        """Buffers bytes for the next `flush`.

        Raises:
            BrokenPipeError: the reader went away.
        """
        self._out.write(data)

    def flush(self) -> None:
        """Passes all buffered bytes to the reader.

        Raises:
            BrokenPipeError: the reader went away.
        """
        self._out.flush()
