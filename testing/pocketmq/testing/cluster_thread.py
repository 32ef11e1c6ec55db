"""The thread that a cluster lives in: its own event loop, whatever the tests do with theirs."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

from pocketmq.runtime.loop_thread import LoopThread

T = TypeVar("T")


class ClusterThread(LoopThread):
    """Runs a cluster's loop; a failed assertion shows the caller's line alone, not the threads'."""

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the loop and blocks until its result is there."""
        __tracebackhide__ = True
        try:
            return super().run(coroutine)
        except AssertionError as e:
            raise e.with_traceback(None) from None

    async def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on this thread's loop while the caller's own loop goes on."""
        __tracebackhide__ = True
        try:
            return await super().wait(coroutine)
        except AssertionError as e:
            raise e.with_traceback(None) from None
