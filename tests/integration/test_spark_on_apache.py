"""Real Spark on Apache's broker: what the data source does without PocketMQ's own requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.interop import maven
from support.interop.apache_servers import apache_cluster
from support.interop.java_probe import JavaProbe, build_probe
from support.spark.parts import Rows, failure, read, wait_until_readable, write
from support.spark.streams import (
    finished,
    needs_limits,
    needs_stream_writes,
    numbers,
    source,
    times,
    to_files,
    to_topic,
)

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(900)]

MQADMIN_S = 300
BEHIND = re.compile(r"Consume Diff Total: (\d+)")


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of Apache's cluster, one for all."""
    if reason := maven.missing_tools():
        pytest.skip(reason)
    with apache_cluster(tmp_path_factory.mktemp("apache") / "broker") as cluster:
        yield cluster.namesrv


@pytest.fixture(scope="module")
def probe(tmp_path_factory: pytest.TempPathFactory) -> JavaProbe:
    return build_probe(tmp_path_factory.mktemp("java-home"))


@pytest.mark.whole_interop
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
def test_tags_and_conditions_are_left_to_the_broker(spark: Any, namesrv: str) -> None:
    rows = spark.range(1000).selectExpr(
        "cast(id as string) value",
        "if(id % 4 = 0, 'new', 'paid') tags",
        "map('price', cast(id as string)) properties",
    )
    write(rows, namesrv, "SparkFilters")
    wait_until_readable(namesrv, "SparkFilters", 1000)
    by_tag = read(spark, namesrv, "SparkFilters", filter="new")
    assert sorted(int(r.value) for r in by_tag.collect()) == list(range(0, 1000, 4))
    both = read(spark, namesrv, "SparkFilters", subExpression="new || paid")
    assert both.count() == 1000
    assert read(spark, namesrv, "SparkFilters").where("tags = 'new'").count() == 250
    condition = {"expressionType": "SQL92", "filter": "price >= 500 AND TAGS = 'new'"}
    by_condition = read(spark, namesrv, "SparkFilters", **condition)
    assert sorted(int(r.value) for r in by_condition.collect()) == list(range(500, 1000, 4))
    with pytest.raises(pyspark.errors.PySparkException, match="no SQL92 condition"):
        read(spark, namesrv, "SparkFilters", expressionType="SQL92", filter="price >").count()


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

    now_ms = int(datetime.now(UTC).timestamp() * 1000)
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


@needs_limits
@needs_stream_writes
@pytest.mark.whole_interop
@pytest.mark.parametrize("servers", ["namesrv", "spark_namesrv"])
def test_streams_are_read_and_written_and_tools_see_how_far_they_are(
    spark: Any, probe: JavaProbe, request: pytest.FixtureRequest, tmp_path: Path, servers: str
) -> None:
    namesrv = request.getfixturevalue(servers)
    write(numbers(spark, 0, 1000), namesrv, "SparkStream")
    wait_until_readable(namesrv, "SparkStream", 1000)
    options = {"maxOffsetsPerTrigger": "600", "consumerGroup": "spark-stream"}
    rows = source(spark, namesrv, "SparkStream", **options).select("value")
    copy = to_topic(rows, namesrv, "SparkStreamCopy", tmp_path / "copy", markRows="true")
    query = finished(copy)
    batches = [p["numInputRows"] for p in query.recentProgress if p["numInputRows"]]
    assert batches == [600, 400]
    assert behind(probe, namesrv, "spark-stream") == 0

    write(numbers(spark, 1000, 1500), namesrv, "SparkStream")
    wait_until_readable(namesrv, "SparkStream", 1500)
    assert behind(probe, namesrv, "spark-stream") == 500
    finished(copy)
    wait_until_readable(namesrv, "SparkStreamCopy", 1500)
    assert times(read(spark, namesrv, "SparkStreamCopy", dropRepeats="true")) == {1: 1500}
    once = source(spark, namesrv, "SparkStreamCopy", dropRepeats="true", filter="*")
    finished(to_files(once, tmp_path / "files"))
    assert times(spark.read.parquet(str(tmp_path / "files" / "rows"))) == {1: 1500}


def behind(probe: JavaProbe, namesrv: str, group: str) -> int:
    """How far a group is behind, by Apache's own tool."""
    call = ["consumerProgress", "-g", group, "-n", namesrv]
    [said] = probe.run("mqadmin", calls=json.dumps([call]), deadline_s=MQADMIN_S)
    found = BEHIND.search(said["printed"])
    assert found is not None, said
    return int(found[1])
