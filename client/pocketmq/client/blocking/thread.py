"""Objects that run their asynchronous twins on the loop of one background thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Generic, Protocol, TypeVar

import uvloop
from typing_extensions import Self

from pocketmq.protocol.errors import UsageError

T = TypeVar("T")


class LoopThread:
    """A thread that runs an event loop; it ends with the process."""

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="pocketmq-client", daemon=True
        )
        self._thread.start()

    @classmethod
    def shared(cls) -> LoopThread:
        """The one thread of this process; made anew in a forked child, which has no threads."""
        with cls._lock:
            if cls._shared is None or not cls._shared._thread.is_alive():
                cls._shared = LoopThread()
            return cls._shared

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and waits for its result.

        Raises:
            UsageError: the caller is this thread itself, as in a callback of `send_async`.
        """
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise UsageError(
                "a callback on the client's own thread cannot wait for the client: use another "
                "thread, or pocketmq.client with await"
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupted caller does not leave the work behind.
            future.cancel()
            raise


class Twin(Protocol):
    """The asynchronous side of a blocking object."""

    async def start(self) -> None:
        """Makes it usable."""

    async def close(self) -> None:
        """Closes it."""


TwinT = TypeVar("TwinT", bound=Twin)


class Blocking(Generic[TwinT]):
    """A blocking object; use it in a ``with`` block, or call `start` and `close`.

    Args:
        make: makes its asynchronous twin, on the loop.
    """

    def __init__(self, make: Callable[[], TwinT]) -> None:
        self._thread = LoopThread.shared()
        self._twin = self._call(make)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Makes the object usable. Idempotent."""
        self._run(self._twin.start())

    def close(self) -> None:
        """Finishes what is under way and closes. Idempotent."""
        self._run(self._twin.close())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        async def call() -> T:
            return function(*args, **kwargs)

        return self._run(call())
