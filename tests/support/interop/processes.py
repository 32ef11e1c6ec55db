"""Servers as subprocesses: started until they say that they are up, stopped for certain."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

# Only a server that hangs takes so long: on a machine with 25 times its work Apache's took 60 s.
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0
# Enough to see why a server did not start, little enough to read in a test report.
LINES_KEPT_MAX = 100


class StartFailure(Exception):
    """A server ended, or stayed silent, before it said that it is up."""

    def __init__(self, command: Sequence[str], output: str) -> None:
        """Keep the command line and the last lines it printed."""
        super().__init__(command, output)
        self.command = command
        self.output = output

    def __str__(self) -> str:
        return f"{' '.join(self.command)} did not start:\n{self.output}"


class ServerOutput:
    """Reads all a process prints, so that it never blocks, and finds the line that says "up"."""

    def __init__(self, process: subprocess.Popen[str], ready: re.Pattern[str]) -> None:
        self.found: re.Match[str] | None = None
        self._process = process
        self._ready = ready
        self._decided = threading.Event()
        self._lines: deque[str] = deque(maxlen=LINES_KEPT_MAX)
        self._thread = threading.Thread(target=self._read, name="server output", daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.append(line)
                if self.found is None and (found := self._ready.search(line)):
                    self.found = found
                    self._decided.set()
        self._decided.set()

    def wait_until_ready(self) -> re.Match[str] | None:
        """The matched line, or None if the process ended or the time passed without one."""
        self._decided.wait(START_TIMEOUT_S)
        return self.found

    def close(self) -> str:
        """Wait for the end of the output; returns its last lines."""
        self._thread.join(STOP_TIMEOUT_S)
        return "".join(self._lines)


@contextmanager
def running(
    command: Sequence[str],
    ready: re.Pattern[str],
    *,
    environment: Mapping[str, str] | None = None,
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Iterator[re.Match[str]]:
    """Run a server for the length of the block; yields the match of its "up" line.

    The server gets the stop signal at the end, and KILL if it does not obey; children it leaves
    behind are killed.
    Raises StartFailure.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **(environment or {})},
        start_new_session=True,
    )
    output = ServerOutput(process, ready)
    try:
        found = output.wait_until_ready()
        if found is not None:
            yield found
    finally:
        _stop(process, stop_signal)
        printed = output.close()
    if found is None:
        raise StartFailure(command, printed)


def _stop(process: subprocess.Popen[str], stop_signal: signal.Signals) -> None:
    process.send_signal(stop_signal)
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_TIMEOUT_S)
    # The process led a session of its own: whatever it left behind is still in its group.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def output_of(
    *command: str, folder: Path, timeout_s: float, environment: Mapping[str, str] | None = None
) -> str:
    """All that a command prints that has to succeed.

    Args:
        command: its words.
        folder: where it runs.
        timeout_s: how long it may take.
        environment: variables besides those of this process.

    Raises:
        AssertionError: it failed; the end of what it printed.
    """
    done = ended(command, folder=folder, timeout_s=timeout_s, environment=environment)
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def ended(
    command: Sequence[str],
    *,
    folder: Path,
    timeout_s: float,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs a command to its end, with nothing to read and all that it prints in `stdout`.

    Raises:
        subprocess.TimeoutExpired: it took longer than ``timeout_s``.
    """
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
