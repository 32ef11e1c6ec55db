"""The thread that a cluster lives in: its own event loop, whatever the tests do with theirs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


class LoopThread:
    """Runs an event loop until it is stopped; it ends with the process at the latest.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine there and blocks until it is done.

        Of a failed assertion the caller sees its own line and the text, not the ways of threads.
        """
        __tracebackhide__ = True
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except AssertionError as e:
            raise e.with_traceback(None) from None
        except BaseException:
            future.cancel()
            raise

    async def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """As `run`, while the caller's loop goes on."""
        __tracebackhide__ = True
        try:
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            return await asyncio.wrap_future(future)
        except AssertionError as e:
            raise e.with_traceback(None) from None

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function there and blocks for its result; it must not wait for anything."""

        async def call() -> T:
            return function(*args)

        return self.run(call())

    def stop(self) -> None:
        """Ends the loop and the thread. Idempotent."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
