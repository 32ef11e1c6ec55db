"""An event loop whose connections and threads are its own turns: a seed repeats a whole run.

Sockets and threads come when the machine likes; here a connection hands its bytes over in the next
turn, and what would run in a thread runs some turns later, and is known to be done later still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from support.crash.memory_parts import FIRST_PORT, Listening, PipeEnd, TurnsLoop

from pocketmq.protocol.wire import frames
from pocketmq.testing.clock import SETTLE_TURNS, VirtualClock, settle

T = TypeVar("T")


class MemoryLoop(TurnsLoop):
    """The loop of one process that may be cut off at any time.

    Args:
        chance: decides how many turns threads take.
        position: counts what was done to the disk so far.

    Attributes:
        answered_at: `position` when an answer left the server, by the request's opaque.
    """

    def __init__(self, chance: random.Random, position: Callable[[], int]) -> None:
        super().__init__(chance)
        self.position = position
        self.listening: dict[int, Callable[[], asyncio.Protocol]] = {}
        self.answered_at: dict[int, int] = {}

    async def create_server(  # type: ignore[override]
        self, factory: Any, *args: Any, **_: Any
    ) -> Any:
        _, port = args
        port = port or FIRST_PORT + len(self.listening)
        self.listening[port] = factory
        return Listening(self.listening, port)

    async def create_connection(  # type: ignore[override]
        self, factory: Any, *args: Any, **_: Any
    ) -> Any:
        _, port = args
        accept = self.listening.get(port)
        if accept is None:
            raise ConnectionRefusedError(f"nobody listens on {port}")
        near, far = Pipe(self, factory(), None), Pipe(self, accept(), self.answered_at)
        near.peer, far.peer = far, near
        far.protocol.connection_made(far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs something to its end."""
        asyncio.set_event_loop(self)
        return self.run_until_complete(main)

    def kill(self) -> None:
        """Ends all tasks; the disk must be off already."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self.close()
        asyncio.set_event_loop(None)


class MemoryClock(VirtualClock):
    """Moves on as soon as nothing on its loop can run: nobody comes from outside."""

    async def _settle(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MemoryLoop)
        for _ in range(SETTLE_TURNS):
            await settle(1)
            if loop.is_idle:
                return


class Pipe(PipeEnd):
    """One end of a connection."""

    def __init__(
        self, loop: MemoryLoop, protocol: asyncio.Protocol, answered_at: dict[int, int] | None
    ) -> None:
        super().__init__()
        self._loop, self.protocol = loop, protocol
        self._answered_at = answered_at
        self._parser = frames.FrameParser()
        self.peer: Pipe = self

    def write(self, data: Any) -> None:
        if self.is_closed:
            return
        if self._answered_at is not None:
            self._parser.feed(data)
            while (command := self._parser.next_command()) is not None:
                self._answered_at[command.opaque] = self._loop.position()
        self._loop.call_soon(self.peer._deliver, bytes(data))

    def _deliver(self, data: bytes) -> None:
        if not self.is_closed:
            self.protocol.data_received(data)

    def close(self) -> None:
        for end in (self, self.peer):
            if not end.is_closed:
                end.is_closed = True
                self._loop.call_soon(end.protocol.connection_lost, None)

    abort = close
