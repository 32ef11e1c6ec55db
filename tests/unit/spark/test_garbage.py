"""Tasks of Spark except loaded modules from garbage collection, and nothing else ever."""

import subprocess
import sys

import pytest

pytest.importorskip("pyspark")

SCRIPT = """
import gc
import sys
from pyspark import TaskContext
from pocketmq.spark.garbage import spare_modules

spare_modules()
assert gc.get_freeze_count() == 0, "this is no task yet"

TaskContext._setTaskContext(TaskContext())
spare_modules()
first = gc.get_freeze_count()
assert first > 10_000, first
kept = [[i] for i in range(1000)]
spare_modules()
assert gc.get_freeze_count() <= first, "no module has come since"

assert "tomllib" not in sys.modules
import tomllib
spare_modules()
assert gc.get_freeze_count() > first + len(kept), "a module has come"
print("held")
"""


@pytest.mark.process
def test_modules_are_spared_within_tasks_alone() -> None:
    # A process of its own: what is excepted there stays excepted.
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("held\n", "")
