"""Calls of functions that the application gave: on the loop, or in threads of their own."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple


class Raised(NamedTuple):
    """What a function raised instead of giving a result."""

    error: Exception


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine; also for an object with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object with an async __call__)
    )


async def call_in_thread(
    threads: ThreadPoolExecutor | None, function: Callable[..., Any], *args: Any
) -> Any:
    """The result of a plain function that runs in a thread.

    It may return a coroutine, as ``lambda message: handle(message)`` does: that runs on the loop.
    """
    result = await asyncio.get_running_loop().run_in_executor(threads, _call, function, *args)
    return await result if inspect.isawaitable(result) else result


def _call(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except (StopIteration, GeneratorExit) as e:
        # Neither can be awaited: before Python 3.12 whoever waits for the first waits for ever,
        # and the second ends all coroutines that wait.
        raise RuntimeError(f"{function!r} raised {type(e).__name__}") from e


class ApplicationFunction:
    """A function of the application: a coroutine function runs on the loop, a plain one in threads.

    Args:
        function: of either kind.
        threads_max: how many calls of a plain function run at once.
    """

    def __init__(self, function: Callable[..., Any], threads_max: int) -> None:
        self._function = function
        self._threads: ThreadPoolExecutor | None = None
        if not is_coroutine_function(function):
            self._threads = ThreadPoolExecutor(threads_max, "pocketmq-application")

    async def call(self, *args: Any) -> Any:
        """Its result, or `Raised` with the exception that it raised."""
        try:
            if self._threads is None:
                return await self._function(*args)
            return await call_in_thread(self._threads, self._function, *args)
        except Exception as e:  # noqa: BLE001 (the border to the application)
            return Raised(e)

    def close(self) -> None:
        """Lets the threads go; a call that is under way cannot be ended."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
