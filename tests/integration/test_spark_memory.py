"""A Spark task's memory is bounded whatever the size of its partition."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "spark_memory.py"

MEGABYTES, LIMIT_MIB = 560, 512
assert MEGABYTES * 1_000_000 > LIMIT_MIB * 1024 * 1024


@pytest.mark.process
@pytest.mark.whole_spark
def test_a_task_holds_less_than_its_partition() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT, "--megabytes", str(MEGABYTES), "--limit", str(LIMIT_MIB)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) >= {"write_resident_mib", "read_resident_mib"}
