"""An event loop whose connections and threads are its own turns: a seed repeats a whole run.

Sockets and threads come when the machine likes; here a connection hands its bytes over in the next
turn, and what would run in a thread runs some turns later, and is known to be done later still.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pocketmq.protocol.wire import frames
from pocketmq.testing.clock import SETTLE_TURNS, VirtualClock, settle

T = TypeVar("T")

FIRST_PORT = 20_000
LOCALHOST = "127.0.0.1"
TURNS_OF_A_THREAD_MAX = 5


class MemoryLoop(asyncio.SelectorEventLoop):
    """The loop of one process that may be cut off at any time.

    Args:
        chance: decides how many turns threads take.
        position: counts what was done to the disk so far.

    Attributes:
        answered_at: `position` when an answer left the server, by the request's opaque.
    """

    def __init__(self, chance: random.Random, position: Callable[[], int]) -> None:
        super().__init__()
        self._chance = chance
        self.position = position
        self.listening: dict[int, Callable[[], asyncio.Protocol]] = {}
        self.answered_at: dict[int, int] = {}

    async def create_server(  # type: ignore[override]
        self, factory: Any, *args: Any, **_: Any
    ) -> Any:
        _, port = args
        port = port or FIRST_PORT + len(self.listening)
        self.listening[port] = factory
        return Listening(self, port)

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

    def run_in_executor(  # type: ignore[override]
        self, _: Any, func: Callable[..., Any], *args: Any
    ) -> Any:
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as e:  # noqa: BLE001 (as a thread hands it over)
                self._after(future.set_exception, e)
            else:
                self._after(future.set_result, result)

        self._after(work)
        return future

    def _after(self, callback: Callable[..., object], *args: Any) -> None:
        turns = self._chance.randrange(TURNS_OF_A_THREAD_MAX)

        def turn(left: int) -> None:
            if left:
                self.call_soon(turn, left - 1)
            else:
                callback(*args)

        self.call_soon(turn, turns)

    @property
    def is_idle(self) -> bool:
        """Whether nothing can run but who asks."""
        return not self._ready  # type: ignore[attr-defined]

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


class Listening:
    """A listening socket."""

    def __init__(self, loop: MemoryLoop, port: int) -> None:
        self._loop, self._port = loop, port
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return LOCALHOST, self._port

    def close(self) -> None:
        self._loop.listening.pop(self._port, None)

    async def wait_closed(self) -> None:
        """It is closed."""


class Pipe(asyncio.Transport):
    """One end of a connection."""

    def __init__(
        self, loop: MemoryLoop, protocol: asyncio.Protocol, answered_at: dict[int, int] | None
    ) -> None:
        super().__init__({"peername": (LOCALHOST, 40_000)})
        self._loop, self.protocol = loop, protocol
        self._answered_at = answered_at
        self._parser = frames.FrameParser()
        self._is_closed = False
        self.peer: Pipe = self

    def write(self, data: Any) -> None:
        if self._is_closed:
            return
        if self._answered_at is not None:
            self._parser.feed(data)
            while (command := self._parser.next_command()) is not None:
                self._answered_at[command.opaque] = self._loop.position()
        self._loop.call_soon(self.peer._deliver, bytes(data))

    def _deliver(self, data: bytes) -> None:
        if not self._is_closed:
            self.protocol.data_received(data)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        for end in (self, self.peer):
            if not end._is_closed:
                end._is_closed = True
                self._loop.call_soon(end.protocol.connection_lost, None)

    abort = close

    def is_closing(self) -> bool:
        return self._is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Whoever reads keeps up."""

    def pause_reading(self) -> None:
        """Never asked for: nobody's buffer fills."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""
