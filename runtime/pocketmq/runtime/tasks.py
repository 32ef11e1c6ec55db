"""Background tasks with an owner: they end with it, and their errors are logged."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import Clock, within

log = logging.getLogger("pocketmq.tasks")


class Tasks:
    """The background tasks of one component."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}  # in order, so that seeds repeat runs

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coroutine: Coroutine[Any, Any, object], name: str) -> asyncio.Task[Any]:
        """Starts a task; if it fails, the error is logged."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("the task %s failed", task.get_name(), exc_info=task.exception())

    async def close(self, clock: Clock | None = None, patience_s: float = 0) -> None:
        """Cancels all tasks and waits for their end. Idempotent.

        Args:
            clock: measures the patience. Without a clock it has no end, which suits only tasks that
                run no code of the application.
            patience_s: what ignores its cancellation for so many seconds is logged and left alone.
        """
        tasks = [t for t in self._tasks if t is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        if clock is None:
            await asyncio.gather(*tasks, return_exceptions=True)
            return
        if tasks:
            with contextlib.suppress(TimeoutError):
                await within(clock, patience_s, asyncio.wait(tasks))
        for task in tasks:
            if not task.done():
                log.error("the task %s ignores its cancellation; it is left alone", task.get_name())


async def all_ended(*coroutines: Awaitable[object]) -> None:
    """Waits for the end of all coroutines, then raises the first error of them.

    For starts side by side: none may be under way when others are stopped because one failed.
    """
    for ended in await asyncio.gather(*coroutines, return_exceptions=True):
        if isinstance(ended, BaseException):
            raise ended


Action = Callable[[], Awaitable[object] | object]


async def repeat(
    clock: Clock,
    period_s: float | Callable[[], float],
    action: Action,
    *,
    first_s: float | None = None,
    idle_s: Callable[[], float] = lambda: 0.0,
) -> None:
    """Runs an action every so many seconds, forever; logs its errors and goes on.

    What is expected to fail at times is logged once for as long as it fails in the same way.

    Args:
        clock: by which the seconds are counted.
        period_s: from the end of one round to the start of the next; a function where it may
            change.
        action: a plain or a coroutine function.
        first_s: seconds before the first round; `period_s` when not given.
        idle_s: see `Clock.sleep_between_rounds`; by default each round may have something to do.
    """

    def pause_s() -> float:
        return period_s() if callable(period_s) else period_s

    reason = ""
    await clock.sleep_between_rounds(pause_s() if first_s is None else first_s, idle_s)
    while True:
        try:
            result = action()
            if isinstance(result, Awaitable):
                await result
        except OperatingError as e:
            level = logging.DEBUG if str(e) == reason else logging.ERROR
            reason = str(e)
            log.log(level, "a periodic action failed; it is tried again in %g s: %s", pause_s(), e)
        except Exception:
            log.exception("a periodic action failed; it is tried again in %g s", pause_s())
        else:
            reason = ""
        await clock.sleep_between_rounds(pause_s(), idle_s)
