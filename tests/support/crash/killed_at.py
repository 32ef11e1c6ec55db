"""Runs the command `pocketmq`, and kills its process at a step of its work on a directory.

`python -m support.crash.killed_at STEP DIRECTORY WORD…`: a step is that a file is opened, made,
renamed, removed or written to, or brought to the disk. With step 0 nothing is killed. In the end
the number of steps is the last line of the standard error.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pocketmq.cli.main import run

EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove"})


class Steps:
    """Counts steps, and ends the process at one of them."""

    def __init__(self, last: int, directory: str) -> None:
        self.count, self._last, self._directory = 0, last, directory

    def take(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS and str(arguments[0]).startswith(self._directory):
            self.take()

    def counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, each call of which is a step."""

        def call(*arguments: Any) -> Any:
            self.take()
            return function(*arguments)

        return call


def main(step: str, directory: str, *words: str) -> None:
    steps = Steps(int(step), directory)
    sys.addaudithook(steps.audit)
    os.write, os.fsync = steps.counted(os.write), steps.counted(os.fsync)
    sys.argv = ["pocketmq", *words]
    try:
        run()
    finally:
        sys.stderr.write(f"\n{steps.count}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
