"""Probes: Apache's clients behind command lines that answer in one JSON document."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

# A probe ends itself after its deadline; the longer timeout is for one that cannot even do that.
DEADLINE_S = 300
GRACE_S = 30
STDERR_SHOWN_MAX = 6000


class ProbeFailure(Exception):
    """A probe command did not succeed: what it was asked, its exit code, what it said."""

    def __init__(self, arguments: list[str], exit_code: int | None, stderr: str) -> None:
        """Keep the arguments, the exit code (None: it had to be killed) and the error output."""
        super().__init__(arguments, exit_code, stderr)
        self.arguments = arguments
        self.exit_code = exit_code
        self.stderr = stderr

    def __str__(self) -> str:
        ended = "was killed" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"probe {' '.join(self.arguments)} {ended}:\n{self.stderr[-STDERR_SHOWN_MAX:]}"


def command_line(command: str, options: Mapping[str, object]) -> list[str]:
    """A command's name and options; ``read_queues=4`` is ``--read-queues 4``."""
    arguments = [command]
    for name, value in options.items():
        arguments += [f"--{name.replace('_', '-')}", str(value)]
    return arguments


def run_probe(
    program: Sequence[str],
    command: str,
    options: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    deadline_s: int = DEADLINE_S,
    folder: Path | None = None,
) -> Any:
    """Run one command of a probe and return its document.

    ``options`` become ``--name value`` (``read_queues=4`` is ``--read-queues 4``). After
    ``deadline_s`` the probe ends itself. It runs in ``folder``: some commands write files there.
    Raises ProbeFailure.
    """
    arguments = command_line(command, {"deadline_s": deadline_s, **options})
    try:
        done = subprocess.run(
            [*program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=deadline_s + GRACE_S,
            check=False,
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
    except subprocess.TimeoutExpired as error:
        raise ProbeFailure(arguments, None, f"silent for {deadline_s + GRACE_S} s") from error
    if done.returncode != 0:
        raise ProbeFailure(arguments, done.returncode, done.stderr)
    return json.loads(done.stdout)
