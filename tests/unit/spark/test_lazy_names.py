"""Names of `pocketmq.spark` are there when asked for, and cost nothing before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pocketmq.spark


def test_every_name_is_there() -> None:
    for name in pocketmq.spark.__all__:
        assert callable(getattr(pocketmq.spark, name))
    assert not hasattr(pocketmq.spark, "exports")


@pytest.mark.process
def test_workers_of_spark_load_no_jobs() -> None:
    script = (
        "import sys, pocketmq.spark, pocketmq.spark.reading.reader, pocketmq.spark.writing.writer;"
        "print([m for m in sys.modules if m.startswith('pocketmq.spark.jobs')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.process
def test_processes_that_plan_and_commit_load_no_arrow_and_no_client() -> None:
    client, filters = "pocketmq.client.instance.instance", "pocketmq.protocol.filters"
    heavy = ["numpy", "pyarrow", "uvloop", client, filters]
    script = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules);"
        "import pocketmq.spark.source, pocketmq.spark.reading.reader;"
        "import pocketmq.spark.writing.writer, pocketmq.spark.streaming.writer;"
        f"print(sorted((set(sys.modules) - before) & set({heavy})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
