"""What the loops of `memory_loop` and `simulation.world` share: turns for threads, no sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, MutableMapping
from typing import Any

LOCALHOST = "127.0.0.1"
FIRST_PORT = 20_000
TURNS_OF_A_THREAD_MAX = 5


class TurnsLoop(asyncio.SelectorEventLoop):
    """A loop in which turns take the place of threads.

    Args:
        chance: decides how many turns something takes.
    """

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    @property
    def is_idle(self) -> bool:
        """Whether nothing can run but who asks."""
        return not self._ready  # type: ignore[attr-defined]

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


class Listening:
    """A listening socket.

    Args:
        ports: who listens, by port; a closed socket is not in there.
        port: its own.
    """

    def __init__(self, ports: MutableMapping[int, Any], port: int) -> None:
        self._ports, self._port = ports, port
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return LOCALHOST, self._port

    def close(self) -> None:
        self._ports.pop(self._port, None)

    async def wait_closed(self) -> None:
        """It is closed."""


class PipeEnd(asyncio.Transport):
    """One end of a connection whose buffers never fill."""

    def __init__(self) -> None:
        super().__init__({"peername": (LOCALHOST, 40_000)})
        self.is_closed = False

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def is_closing(self) -> bool:
        return self.is_closed

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Whoever reads keeps up."""

    def pause_reading(self) -> None:
        """Never asked for: nobody's buffer fills."""

    def resume_reading(self) -> None:
        """See `pause_reading`."""
