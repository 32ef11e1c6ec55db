"""A program with a Spark driver, in a process of its own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MOMENT_S = 0.01
TESTS = Path(__file__).parents[2]


class Driver:
    """One run of a module, with its JVM, in a process group of its own.

    Args:
        words: the module and what it is given.
    """

    def __init__(self, *words: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def is_alive(self) -> bool:
        """Whether it runs still, for a moment at the least: who asks again does not spin."""
        try:
            self._process.wait(MOMENT_S)
        except subprocess.TimeoutExpired:
            return True
        return False

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def close(self) -> None:
        """Lets go of what it has printed."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def output(self) -> str:
        """What it prints until it ends well."""
        out, _ = self._process.communicate()
        assert self._process.returncode == 0, out
        return out


@contextmanager
def driver(*words: str) -> Iterator[Driver]:
    """A run that is killed at the end, unless it has ended."""
    run = Driver(*words)
    try:
        yield run
    finally:
        if run.is_alive():
            run.kill()
        run.close()
