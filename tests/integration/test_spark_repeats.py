"""Repeats of marked writes are dropped exactly: each row counts once, whatever ran twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from support.spark.parts import read, write

from pocketmq.spark.rows.marks import WRITER_ID, WRITER_SEQUENCE, Sequence, WriterIdentity

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROWS = 300
PADDING = 100_000
FIRST_ROWS = 110
"""Of a task that fails: more than the block of 8 MiB that a task collects before it sends."""


BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"


@pytest.fixture(autouse=True)
def small_batches(spark: Any) -> Iterator[None]:
    """So that rows reach the writing task before the last ones are made."""
    before = spark.conf.get(BATCH_SETTING)
    spark.conf.set(BATCH_SETTING, "10")
    yield
    spark.conf.set(BATCH_SETTING, before)


def numbers(spark: Any, partitions: int = 2) -> Any:
    return spark.range(0, ROWS, 1, partitions).selectExpr(
        f"concat(repeat('x', {PADDING}), id) value"
    )


def failing(rows: Any, namesrv: str, topic: str, *, attempts: int = 1, turned: bool = False) -> Any:
    """The rows, whose tasks fail half-way when others of the topic are stored.

    Args:
        attempts: how many attempts of each task fail.
        turned: the later attempts give the rows in another order.
    """

    def some_then_fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pocketmq.spark.jobs.progress import TopicGrowth

        table = pa.Table.from_batches(list(batches))
        attempt = pyspark.TaskContext.get().attemptNumber()
        if turned and attempt:
            table = table.take(list(reversed(range(table.num_rows))))
        if attempt >= attempts:
            yield from table.to_batches(max_chunksize=10)
            return
        yield from table.slice(0, FIRST_ROWS).to_batches(max_chunksize=10)
        growth = TopicGrowth(namesrv, topic)
        while growth.stored() == 0:
            pass
        raise RuntimeError("failed half-way")

    return rows.mapInArrow(some_then_fail, rows.schema)


def times(frame: Any) -> Counter[int]:
    """How many rows are there how often."""
    rows = frame.selectExpr(f"substring(value, {PADDING + 1}) row").collect()
    return Counter(Counter(bytes(r.row) for r in rows).values())


ONCE = Counter({1: ROWS})


@pytest.mark.whole_spark
@pytest.mark.parametrize("turned", [False, True])
def test_what_a_task_repeats_is_dropped(spark: Any, spark_namesrv: str, turned: bool) -> None:
    topic = f"Retried{turned}"
    create(spark, spark_namesrv, topic)
    rows = failing(numbers(spark), spark_namesrv, topic, turned=turned)
    write(rows, spark_namesrv, topic, markRows="true")
    everything = times(read(spark, spark_namesrv, topic))
    assert max(everything) > 1, "no task had sent rows before it failed"
    assert everything.total() == ROWS, "a row is missing"

    def dropped(**options: str) -> Any:
        return read(spark, spark_namesrv, topic, dropRepeats="true", **options)

    assert times(dropped()) == ONCE
    assert times(dropped(minPartitions="20", includeProperties="false")) == ONCE


@pytest.mark.whole_spark
def test_a_job_that_failed_does_not_count_and_its_rerun_does(
    spark: Any, spark_namesrv: str
) -> None:
    again = {"writerId": "nightly/2026-11-21"}

    def counted() -> Counter[int]:
        return times(read(spark, spark_namesrv, "Rerun", dropRepeats="true"))

    create(spark, spark_namesrv, "Rerun")
    broken = failing(numbers(spark), spark_namesrv, "Rerun", attempts=99)
    with pytest.raises(pyspark.errors.PySparkException, match="failed half-way"):
        write(broken, spark_namesrv, "Rerun", **again)
    assert read(spark, spark_namesrv, "Rerun").count() > 0
    assert counted() == Counter()
    # Other partitions than the first time, as on a cluster of another size.
    write(numbers(spark, 3), spark_namesrv, "Rerun", **again)
    assert counted() == ONCE
    # And once more, although it had succeeded.
    write(numbers(spark, 1), spark_namesrv, "Rerun", **again)
    assert counted() == ONCE
    assert read(spark, spark_namesrv, "Rerun").count() > 2 * ROWS
    # Rows of another writer, and rows without marks, are not taken for repeats.
    write(numbers(spark), spark_namesrv, "Rerun", writerId="another")
    write(numbers(spark), spark_namesrv, "Rerun")
    assert counted() == Counter({3: ROWS})


def test_marks_are_properties_that_any_consumer_sees(spark: Any, spark_namesrv: str) -> None:
    rows = numbers(spark, 3)
    write(rows, spark_namesrv, "Marked", writerId="a:1")
    marks = [r.properties for r in read(spark, spark_namesrv, "Marked").collect()]
    assert {WriterIdentity.parse(m[WRITER_ID]).writer_id for m in marks} == {"a:1"}
    sequences = {Sequence.parse(m[WRITER_SEQUENCE]) for m in marks}
    assert len(sequences) == ROWS
    assert {(s.epoch, s.partition) for s in sequences} == {(0, 0), (0, 1), (0, 2)}
    # A copy is written anew: it has no part in what its origin's writer committed.
    copied = read(spark, spark_namesrv, "Marked").select("value", "properties")
    write(copied, spark_namesrv, "Copied")
    assert read(spark, spark_namesrv, "Copied", dropRepeats="true").count() == ROWS


@pytest.mark.whole_spark
def test_marks_whose_commits_cannot_be_known_are_an_error(spark: Any, spark_namesrv: str) -> None:
    rows = numbers(spark)
    write(rows, spark_namesrv, "Unknown", writerId="b", commitTopic="OtherCommits")
    elsewhere = {"dropRepeats": "true", "commitTopic": "NoCommits"}
    lost = read(spark, spark_namesrv, "Unknown", **elsewhere)
    with pytest.raises(pyspark.errors.PySparkException, match="commit topic is not there"):
        lost.count()
    kept = read(spark, spark_namesrv, "Unknown", failOnDataLoss="false", **elsewhere)
    assert kept.count() == ROWS


def create(spark: Any, namesrv: str, topic: str) -> None:
    """Creates a topic, by a write of no rows."""
    write(spark.range(0).selectExpr("cast(id as string) value"), namesrv, topic)
