"""A job whose tasks go wrong: one is slow until it has a twin, the executor of another is killed.

It prints, as JSON, how many rows are there and how many count.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql import SparkSession

ROWS, PARTITIONS = 40_000, 2
FIRST_ROWS = 14_000
"""Of a partition: with a value of 1 kB more than the block of 8 MiB that is collected and sent."""

KILLED = 1
"""The partition whose executor is killed; the other one is slow."""


def executor_pid() -> int:
    """The JVM of this task: the parent of the daemon that forked this process."""
    status = Path(f"/proc/{os.getppid()}/status").read_text(encoding="ascii")
    return int(status.split("PPid:")[1].split()[0])


def troubled(namesrv: str, topic: str, directory: str) -> Any:
    """The function for mapInArrow."""

    def rows(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        from pocketmq.spark.jobs.progress import TopicGrowth

        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        attempts = Path(directory) / str(partition)
        attempts.mkdir(parents=True, exist_ok=True)
        is_first = not any(attempts.iterdir())
        (attempts / str(context.taskAttemptId())).touch()
        table = pa.Table.from_batches(list(batches))
        yield from table.slice(0, FIRST_ROWS).to_batches(max_chunksize=1000)
        if is_first:
            growth = TopicGrowth(namesrv, topic)
            while growth.stored() == 0:
                pass
            if partition == KILLED:
                os.kill(executor_pid(), signal.SIGKILL)
            while len(list(attempts.iterdir())) < 2:
                pass
        yield from table.slice(FIRST_ROWS).to_batches(max_chunksize=1000)

    return rows


def main(namesrv: str, topic: str, directory: str) -> None:
    """Writes the rows with marks, and reads them."""
    from pocketmq.spark import register

    spark = SparkSession.builder.getOrCreate()
    register(spark)
    target = {"namesrvAddr": namesrv, "topic": topic, "writerId": "faults"}
    rows = spark.range(0, ROWS, 1, PARTITIONS).selectExpr("concat(repeat('x', 1000), id) value")
    wrong = rows.mapInArrow(troubled(namesrv, topic, directory), rows.schema)
    wrong.write.format("pocketmq").options(**target).mode("append").save()

    def counts(**options: str) -> list[int]:
        source = spark.read.format("pocketmq").options(namesrvAddr=namesrv, subscribe=topic)
        found = source.options(includeProperties="false", **options).load().select("value")
        return list(found.selectExpr("count(value)", "count(distinct value)").collect()[0])

    found = {"all": counts(), "counted": counts(dropRepeats="true")}
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
