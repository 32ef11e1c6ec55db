"""Real Spark on Apache's broker: what the data source does without PocketMQ's own requests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from integration.spark_parts import Rows, failure, read, wait_until_readable, write
from integration.spark_streams import numbers
from interop import maven
from interop.apache_servers import apache_cluster

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of Apache's cluster, one for all."""
    if reason := maven.missing_tools():
        pytest.skip(reason)
    with apache_cluster(tmp_path_factory.mktemp("apache") / "broker") as cluster:
        yield cluster.namesrv


def test_rows_are_written_and_read(spark: Any, namesrv: str) -> None:
    rows = spark.range(5000).selectExpr(
        "concat('row ', id) value",
        "concat('k', id) key",
        "cast(id % 5 as string) shardingKey",
        "map('n', cast(id as string)) properties",
    )
    write(rows.coalesce(1), namesrv, "SparkPlain")
    wait_until_readable(namesrv, "SparkPlain", 5000)
    found: Rows = read(spark, namesrv, "SparkPlain", minPartitions="6").collect()
    assert sorted(int(r.properties["n"]) for r in found) == list(range(5000))
    assert all(r.value == f"row {r.properties['n']}".encode() for r in found)
    assert all(r["keys"] == f"k{r.properties['n']}" for r in found)
    found.sort(key=lambda r: (r.queueId, r.queueOffset))
    for key in map(str, range(5)):
        of_key = [r for r in found if r.properties["__SHARDINGKEY"] == key]
        assert len({r.queueId for r in of_key}) == 1
        in_order = [int(r.properties["n"]) for r in of_key]
        assert in_order == sorted(in_order)

    write(rows.drop("shardingKey"), namesrv, "SparkInTurn", batchRows="100")
    wait_until_readable(namesrv, "SparkInTurn", 5000)
    assert read(spark, namesrv, "SparkInTurn").select("value").distinct().count() == 5000


@pytest.mark.whole_interop
def test_delayed_rows_are_held_back(spark: Any, namesrv: str) -> None:
    rows = spark.range(3).selectExpr(
        "cast(id as string) value",
        "array(0, 1, 18)[int(id)] delayLevel",  # at once, a second, two hours
    )
    write(rows, namesrv, "SparkLevels")
    wait_until_readable(namesrv, "SparkLevels", 2)
    found = read(spark, namesrv, "SparkLevels").collect()
    assert sorted(r.value for r in found) == [b"0", b"1"]

    now_ms = int(datetime.now(timezone.utc).timestamp() * 1000)
    rows = spark.range(3).selectExpr(
        "cast(id as string) value",
        f"array(1000L, {now_ms + 1000}L, {now_ms + 7_200_000}L)[int(id)] deliverAt",
    )
    write(rows, namesrv, "SparkTimes")
    wait_until_readable(namesrv, "SparkTimes", 2)
    found = read(spark, namesrv, "SparkTimes").collect()
    assert sorted(r.value for r in found) == [b"0", b"1"]
    # Further ahead than the broker's timerMaxDelaySec, three days.
    far = spark.range(1).selectExpr("'x' value", f"{now_ms + 4 * 86_400_000}L deliverAt")
    why = failure(far, namesrv, "SparkTimes", retryTimesWhenSendFailed="0")
    assert "timer message illegal" in why


@pytest.mark.whole_interop
def test_marked_rows_count_once(spark: Any, namesrv: str) -> None:
    def counted() -> int:
        rows: int = read(spark, namesrv, "SparkMarks", dropRepeats="true").count()
        return rows

    for run, partitions in enumerate((2, 3)):
        rows = spark.range(0, 1000, 1, partitions).selectExpr("cast(id as string) value")
        write(rows, namesrv, "SparkMarks", writerId="once")
        wait_until_readable(namesrv, "SparkMarks", 1000 * (run + 1))
        wait_until_readable(namesrv, "SPARK_COMMITS", run + 1)
        assert counted() == 1000
    write(numbers(spark, 0, 10), namesrv, "SparkMarks")
    wait_until_readable(namesrv, "SparkMarks", 2010)
    assert counted() == 1010
