"""A thread with an event loop of its own, for callers that have none or must not block theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

from pocketmq.protocol.errors import UsageError

T = TypeVar("T")

SHARED_THREAD_NAME = "pocketmq-client"


class LoopThread:
    """Runs an event loop in a daemon thread until `stop`, or until the process ends.

    Args:
        name: of the thread.
    """

    _lock = threading.Lock()
    _shared: LoopThread | None = None

    def __init__(self, name: str) -> None:
        self._users = 0
        self._stop = asyncio.Event()
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._loop = self._runner.get_loop()
        self._thread = threading.Thread(target=self._run_loop, name=name, daemon=True)
        self._thread.start()

    def _run_loop(self) -> None:
        with self._runner:  # cancels what is left in the end
            self._runner.run(self._until_stop())

    async def _until_stop(self) -> None:
        await self._stop.wait()

    @classmethod
    def shared(cls) -> LoopThread:
        """Returns the process's shared thread, which ends when all its users have left it.

        A forked child, which has no threads, makes one. Each call is a use, and ends by `leave`.
        """
        with cls._lock:
            if cls._shared is None or not cls._shared._thread.is_alive():
                cls._shared = LoopThread(SHARED_THREAD_NAME)
            cls._shared._users += 1
            return cls._shared

    def leave(self) -> None:
        """Ends one use of the shared thread, and with the last one the thread."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
            if LoopThread._shared is self:
                LoopThread._shared = None
        self.stop()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and blocks until its result is there.

        Raises:
            UsageError: the caller is this thread itself, as in a callback of `send_async`.
        """
        __tracebackhide__ = True
        if threading.current_thread() is self._thread:
            coroutine.close()
            raise UsageError(
                f"a callback on the thread {self._thread.name} cannot wait for that thread: use "
                f"another thread, or the asynchronous client with await"
            )
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            # An interrupted caller does not leave the work behind.
            future.cancel()
            raise

    async def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on this thread's loop while the caller's own loop goes on."""
        __tracebackhide__ = True
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Calls a function on the loop and blocks for its result; the function must not wait."""
        __tracebackhide__ = True

        async def call() -> T:
            return function(*args, **kwargs)

        return self.run(call())

    def stop(self) -> None:
        """Ends the loop and the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
