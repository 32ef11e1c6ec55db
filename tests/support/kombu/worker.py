"""A worker of Celery in a process of its own, to be stopped or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).parents[2]


class Worker:
    """A worker of the application of `support.kombu.celery_app`, with a pool of processes.

    Args:
        namesrv: the name server.
        done: the file where tasks note that they ran.
    """

    def __init__(self, namesrv: str, done: Path) -> None:
        self._environment = {
            **os.environ, "NAMESRV": namesrv, "DONE": str(done), "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        self._done = done

    async def __aenter__(self) -> Worker:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        assert await self._process.wait() == 0

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "celery", "--quiet", "-A", "support.kombu.celery_app", "worker",
            "--concurrency", "2", "--loglevel", "ERROR",
            env=self._environment, cwd=self._done.parent, start_new_session=True,
        )  # fmt: skip

    async def kill(self) -> None:
        """Ends the worker and its pool, as a power cut does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        assert await self._process.wait() == -signal.SIGKILL
