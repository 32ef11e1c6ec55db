from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.whole_spark]


def test_ctrl_c_ends_a_job_without_tracebacks_of_spark() -> None:
    script = Path(__file__).parents[1] / "support" / "spark" / "interrupted_job.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    assert done.returncode == -signal.SIGINT, done.stderr
    assert said[-1] == "KeyboardInterrupt", done.stderr
    assert said.count("Traceback (most recent call last):") == 1, done.stderr
    assert not [line for line in said if line.startswith("ERROR:")], done.stderr  # Python's log
