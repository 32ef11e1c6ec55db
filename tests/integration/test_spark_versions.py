"""What each version of PySpark can do on a real Spark, and what it says of what it cannot.

`make spark-on-4.0` and its like run this module on an older one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.spark.parts import read, write
from support.spark.streams import STREAM_FEATURES, finished, numbers, source, times, to_files

pyspark = pytest.importorskip("pyspark")

from pocketmq.spark import register  # noqa: E402
from pocketmq.spark.features import has_pushdown  # noqa: E402

pytestmark = [pytest.mark.spark, pytest.mark.whole_spark, pytest.mark.timeout(900)]


def test_rows_are_written_marked_and_read(spark: Any, spark_namesrv: str) -> None:
    rows = spark.range(1000).selectExpr("cast(id as string) value", "if(id < 10, 'a', 'b') tags")
    write(rows, spark_namesrv, "VersionBatch", markRows="true")
    found = read(spark, spark_namesrv, "VersionBatch", dropRepeats="true", minPartitions="5")
    assert times(found) == {1: 1000}
    assert read(spark, spark_namesrv, "VersionBatch", filter="a").count() == 10


@pytest.mark.skipif(not has_pushdown(), reason="this PySpark evaluates all conditions itself")
def test_conditions_make_a_read_smaller_where_that_is_wanted(
    spark: Any, spark_namesrv: str
) -> None:
    rows = spark.range(800).selectExpr("cast(id as string) value", "if(id < 10, 'a', 'b') tags")
    write(rows, spark_namesrv, "VersionPushed")
    register(spark, push_filters=True)
    try:
        one = read(spark, spark_namesrv, "VersionPushed").where("queueId = 1 and tags = 'b'")
        assert one.rdd.getNumPartitions() == 2
        assert 0 < one.count() <= 200
    finally:
        register(spark)


def test_a_stream_is_read_and_goes_on(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    write(numbers(spark, 0, 500), spark_namesrv, "VersionStream")
    rows = source(spark, spark_namesrv, "VersionStream", consumerGroup="versions")
    finished(to_files(rows, tmp_path))
    write(numbers(spark, 500, 700), spark_namesrv, "VersionStream")
    finished(to_files(rows, tmp_path))
    assert times(spark.read.parquet(str(tmp_path / "rows"))) == {1: 700}


def test_each_batch_of_a_stream_is_written(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    write(numbers(spark, 0, 500), spark_namesrv, "VersionEach")
    rows = source(spark, spark_namesrv, "VersionEach").select("value")

    def each(batch: Any, batch_id: int) -> None:
        register(batch.sparkSession)  # Spark calls this in a thread of its own
        write(batch, spark_namesrv, "VersionCopy", writerId=f"each-{batch_id}")

    sink = rows.writeStream.foreachBatch(each)
    finished(sink.option("checkpointLocation", str(tmp_path / "checkpoint")))
    assert times(read(spark, spark_namesrv, "VersionCopy", dropRepeats="true")) == {1: 500}


@pytest.mark.skipif(STREAM_FEATURES.has_limits, reason="this PySpark bounds batches")
@pytest.mark.parametrize(
    "option",
    [("maxOffsetsPerTrigger", "5"), ("minOffsetsPerTrigger", "5"), ("dropRepeats", "true")],
)
def test_options_that_need_a_newer_one_are_refused(
    spark: Any, spark_namesrv: str, tmp_path: Path, option: tuple[str, str]
) -> None:
    write(numbers(spark, 0, 5), spark_namesrv, "VersionRefused")
    rows = source(spark, spark_namesrv, "VersionRefused", **dict([option]))
    with pytest.raises(pyspark.errors.PySparkException, match=rf"{option[0]}.*4\.2 or newer"):
        finished(to_files(rows, tmp_path))


@pytest.mark.skipif(STREAM_FEATURES.has_arrow_writes, reason="this PySpark writes streams")
def test_streams_that_need_a_newer_one_are_not_written(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    write(numbers(spark, 0, 5), spark_namesrv, "VersionUnwritten")
    rows = source(spark, spark_namesrv, "VersionUnwritten").select("value")
    sink = rows.writeStream.format("pocketmq").options(namesrvAddr=spark_namesrv, topic="Copy")
    with pytest.raises(pyspark.errors.PySparkException, match=r"4\.1 or newer.*foreachBatch"):
        finished(sink.option("checkpointLocation", str(tmp_path / "checkpoint")))
