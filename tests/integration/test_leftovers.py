"""A run of the tests that is killed leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import leftovers

TIMEOUT_S = 60.0

RUN = """
import subprocess, sys
from support.leftovers import end_with_this_run

end_with_this_run()
child = subprocess.Popen(["sh", "-c", "sleep 600 & wait"], start_new_session=True)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_run_started_is_ended(number: signal.Signals) -> None:
    tests = str(Path(leftovers.__file__).parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        env={**os.environ, "PYTHONPATH": tests},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"started\n"
        os.kill(run.pid, number)
        # The shell and its child hold the other end of the pipe: it closes when both have ended.
        assert run.stdout.read() == b""
        assert run.wait(TIMEOUT_S) == -number
