"""Gives the space of deleted files back to the system, in a thread.

To remove a file's name is quick. To free its blocks and cached pages takes the system up to 100 ms
a gigabyte, which it spends in whatever call lets go of the file last.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

log = logging.getLogger("pocketmq.store")

FREED_ELSEWHERE_SIZE_MIN = 256 * 1024
"""Smaller files are freed at once: that takes less time than to hand them over."""

STEP_SIZE = 16 * 1024 * 1024
"""Bytes that are freed at once: one long step would keep the file system's journal from others."""


class Freeing:
    """Closes deleted files that were still open, in a thread that frees their space."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def take(self, handle: int) -> None:
        """Hands the handle of a deleted file to the thread, which closes it and frees its space."""
        if os.fstat(handle).st_size < FREED_ELSEWHERE_SIZE_MIN:
            os.close(handle)
            return
        self._last = self._started().submit(_free, handle)

    async def run(self, action: Callable[..., T], *args: object) -> T:
        """Runs an action that removes files in the same thread, and returns its result."""
        return await asyncio.get_running_loop().run_in_executor(self._started(), action, *args)

    def _started(self) -> ThreadPoolExecutor:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "pocketmq-free")
        return self._thread

    async def wait(self) -> None:
        """Returns when the space of all files taken so far is free."""
        if self._last is not None:
            await asyncio.wrap_future(self._last)

    def close(self) -> None:
        """Returns when the space of all files is free, and ends the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None


def remove_file(path: Path) -> None:
    """Removes a file and frees what it held, before it returns. May be called from any thread."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        path.unlink()
    finally:
        _free(handle)


def _free(handle: int) -> None:
    try:
        state = os.fstat(handle)
        # A file that has another name, such as a copy by hard links, keeps its content.
        size = 0 if state.st_nlink else state.st_size
        while size > 0:
            size = max(size - STEP_SIZE, 0)
            os.ftruncate(handle, size)
    except OSError as e:
        log.warning("a deleted file cannot be emptied in steps, so it goes as a whole: %s", e)
    finally:
        os.close(handle)
