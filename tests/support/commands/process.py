"""The command `pocketmq` in a process of its own, for tests of what only a process does."""

from __future__ import annotations

import subprocess
import sys

COMMAND = (sys.executable, "-m", "pocketmq.cli.main")
TIMEOUT_S = 60.0


def pocketmq_process(
    *words: str, stdin: str | None = None, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, with pipes for its standard streams.

    Args:
        words: its arguments.
        stdin: what it reads.
        prefix: a command that runs it.
    """
    return subprocess.run(
        (*prefix, *COMMAND, *words),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def ok_process(*words: str, stdin: str | None = None) -> str:
    """Runs the command, which succeeds; what it wrote to its standard output."""
    done = pocketmq_process(*words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout
