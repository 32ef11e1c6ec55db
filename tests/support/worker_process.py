"""A worker of tasks in a process of its own, to be stopped or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]

CELERY = (
    "celery", "--quiet", "-A", "support.kombu.celery_app", "worker",
    "--concurrency", "2", "--loglevel", "ERROR",
)  # fmt: skip
"""The module and the words of a worker of `support.kombu.celery_app`, with a pool of processes."""

TASKIQ = (
    "taskiq", "worker", "support.taskiq.taskiq_app:broker",
    "--workers", "2", "--max-async-tasks", "8", "--log-level", "ERROR",
)  # fmt: skip
"""The module and the words of a worker of `support.taskiq.taskiq_app`, with two processes."""


class WorkerProcess:
    """A worker, with the processes that it starts.

    Args:
        command: such as `CELERY`.
        namesrv: the name server.
        done: the file where tasks note that they ran.
    """

    def __init__(self, command: tuple[str, ...], namesrv: str, done: Path) -> None:
        self._command = command
        self._environment = {
            **os.environ, "NAMESRV": namesrv, "DONE": str(done), "PYTHONPATH": str(TESTS),
        }  # fmt: skip
        self._done = done

    async def __aenter__(self) -> WorkerProcess:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._process.terminate()
        assert await self._process.wait() == 0

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *self._command,
            env=self._environment, cwd=self._done.parent, start_new_session=True,
        )  # fmt: skip

    async def kill(self) -> None:
        """Ends the worker and its processes, as a power cut does."""
        os.killpg(self._process.pid, signal.SIGKILL)
        assert await self._process.wait() == -signal.SIGKILL


def note(line: str) -> None:
    """Adds a line to the file that ``DONE`` names, whole, whoever else writes."""
    with open(os.environ["DONE"], "ab", buffering=0) as file:
        file.write(f"{line}\n".encode())


def lines_of(done: Path) -> list[str]:
    """Returns what tasks have noted in a file."""
    return done.read_text("utf-8").splitlines()
