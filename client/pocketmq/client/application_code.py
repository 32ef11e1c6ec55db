"""Calls of the application's functions: on the loop, or in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, NamedTuple


class Raised(NamedTuple):
    """The exception that a function raised instead of returning a result."""

    error: Exception


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    """Whether a function, or an object's `__call__`, is a coroutine function."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 (an object with an async __call__)
    )


async def call_in_thread(
    threads: ThreadPoolExecutor | None, function: Callable[..., Any], *args: Any
) -> Any:
    """Calls a plain function in a thread and returns its result.

    It may return a coroutine, as ``lambda message: handle(message)`` does: that runs on the loop.
    The function sees the caller's context variables, such as the current span of a trace.
    """
    in_context = copy_context().run
    result = await asyncio.get_running_loop().run_in_executor(
        threads, in_context, call, function, *args
    )
    return await result if inspect.isawaitable(result) else result


def call(function: Callable[..., Any], *args: Any) -> Any:
    """Calls a function, whose exceptions a coroutine will get."""
    try:
        return function(*args)
    except (StopIteration, GeneratorExit) as e:
        # Neither can be awaited: before Python 3.12 whoever waits for the first waits for ever,
        # and the second ends all coroutines that wait.
        raise RuntimeError(f"{function!r} raised {type(e).__name__}") from e


def outcome_of(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    """Calls a function as `call` does; returns its result, and what it raised instead."""
    try:
        return call(function, *args), None
    except BaseException as e:  # noqa: BLE001 (the border to the application)
        return None, e


class ApplicationFunction:
    """Calls a function of the application: coroutines on the loop, plain ones in threads.

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
        """Returns the function's result, or `Raised` with the exception that it raised."""
        try:
            if self._threads is None:
                return await self._function(*args)
            return await call_in_thread(self._threads, self._function, *args)
        except Exception as e:  # noqa: BLE001 (the border to the application)
            return Raised(e)

    def close(self) -> None:
        """Ends the threads; a call that is under way cannot be ended."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
