"""Spark tasks that wait in the middle of their rows until a test lets them go on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pocketmq.spark import register
from pocketmq.spark.jobs.failures import reason_of

BATCH_ROWS = 100
BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Gate:
    """Holds tasks up until it is opened: who opens a pipe waits for its other end.

    Args:
        path: where to put the pipe; a file beside it says who waits.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.begun = path, path.with_name(f"{path.name}.begun")
        os.mkfifo(path)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lets all tasks pass, from now on."""
        ends = os.open(self.path, os.O_RDWR)
        try:
            yield
        finally:
            os.close(ends)

    def last_rows_of(self, rows: Any, partition: int) -> Any:
        """The rows, of which the last ones of a partition come only when the gate is open."""
        path = str(self.path)

        def hold(batches: Iterator[Any]) -> Iterator[Any]:
            from pyspark import TaskContext

            table = pa.Table.from_batches(list(batches))
            context = TaskContext.get()
            is_held = context is not None and context.partitionId() == partition
            first = table.num_rows - BATCH_ROWS if is_held else table.num_rows
            yield from table.slice(0, first).to_batches(max_chunksize=BATCH_ROWS)
            if is_held:
                with open(path, "rb"):
                    yield from table.slice(first).to_batches()

        return rows.mapInArrow(hold, rows.schema)

    def after(self, rows: Any, rows_count: int) -> Any:
        """The values of a read; the first task with so many rows names its broker, and waits."""
        path, begun = str(self.path), str(self.begun)

        def stop(batches: Iterator[Any]) -> Iterator[Any]:
            seen = 0
            for batch in batches:
                yield batch.select(["value"])
                seen += batch.num_rows
                if seen < rows_count or os.path.exists(begun):
                    continue
                unfinished = f"{begun}.{os.getpid()}"
                with open(unfinished, "w") as file:
                    file.write(batch["brokerName"][0].as_py())
                try:
                    os.link(unfinished, begun)
                except FileExistsError:
                    continue  # another task was first
                with open(path, "rb"):
                    pass

        return rows.select("value", "brokerName").mapInArrow(stop, "value binary")


@contextmanager
def small_batches(spark: Any) -> Iterator[None]:
    """Has rows reach the next task before the last ones are made."""
    before = spark.conf.get(BATCH_SETTING)
    spark.conf.set(BATCH_SETTING, str(BATCH_ROWS))
    try:
        yield
    finally:
        spark.conf.set(BATCH_SETTING, before)


@contextmanager
def meanwhile(spark: Any, job: Callable[..., Any], *given: Any, **more: Any) -> Iterator[Any]:
    """Runs a job in a thread of its own; gives its future."""
    with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as jobs:
        yield jobs.submit(job, *given, **more)


def reason(job: Future[Any]) -> str:
    """Why a job failed; empty if it did not."""
    from pyspark.errors import PySparkException

    error = job.exception()
    assert error is None or isinstance(error, PySparkException), error
    return "" if error is None else reason_of(error)
