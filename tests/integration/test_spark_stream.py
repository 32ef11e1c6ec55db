"""Streams of real Spark: bounded batches, restarts, batches that are run again, a killed broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.commands.here import Command, here
from support.interop.apache_servers import free_broker_port
from support.spark.parts import Servers, read, write
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

from pocketmq.client.blocking import Admin
from pocketmq.spark import register
from pocketmq.spark.rows.marks import WRITER_SEQUENCE, Sequence

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

__all__ = ["here"]


@needs_limits
def test_a_stream_is_read_in_bounded_batches_and_goes_on(
    spark: Any, spark_namesrv: str, here: Command, tmp_path: Path
) -> None:
    def behind() -> int:
        names = ("--namesrv", spark_namesrv)
        code, out, errors = here("group", "lag", "bounded-group", "-o", "json", *names)
        assert code == 0, errors
        return sum(row["lag"] for row in json.loads(out))

    write(numbers(spark, 0, 1000), spark_namesrv, "Bounded")
    options = {
        "maxOffsetsPerTrigger": "600",
        "includeProperties": "false",
        "consumerGroup": "bounded-group",
        "minPartitions": "10",
    }
    rows = source(spark, spark_namesrv, "Bounded", **options)
    assert "properties" not in rows.columns
    query = finished(to_files(rows, tmp_path))
    batches = [p for p in query.recentProgress if p["numInputRows"]]
    assert [p["numInputRows"] for p in batches] == [600, 400]
    latest = json.loads(batches[0]["sources"][0]["latestOffset"])
    assert sum(o for qs in latest["Bounded"].values() for o in qs.values()) == 1000
    with Admin(spark_namesrv) as admin:
        lags = admin.consume_stats("bounded-group", "Bounded")
    assert [row.lag for row in lags] == [0] * 8
    assert behind() == 0

    # More messages, some of them in queues that are new.
    with Admin(spark_namesrv) as admin:
        admin.create_topic("Bounded", queues=6)
    write(numbers(spark, 1000, 1500), spark_namesrv, "Bounded")
    # No group has ever committed in the new queues: they do not count as backlog yet.
    assert 0 < behind() <= 500
    query = finished(to_files(rows, tmp_path))
    assert sum(p["numInputRows"] for p in query.recentProgress) == 500
    assert behind() == 0
    found = spark.read.parquet(str(tmp_path / "rows"))
    assert times(found) == {1: 1500}
    assert found.select("brokerName", "queueId").distinct().count() == 12


@needs_limits
@needs_stream_writes
@pytest.mark.whole_spark
def test_a_batch_that_is_run_again_counts_once(
    spark: Any, spark_namesrv: str, tmp_path: Path
) -> None:
    write(numbers(spark, 0, 1000), spark_namesrv, "Again")
    rows = source(spark, spark_namesrv, "Again", maxOffsetsPerTrigger="600").select("value")
    report = tmp_path / "report"
    options = {"markRows": "true", "commitFile": str(report)}
    finished(to_topic(rows, spark_namesrv, "AgainCopy", tmp_path, **options))
    found = json.loads(report.read_text())
    assert (found["batchId"], sum(found["rowsByQueue"].values())) == (1, 400)

    # As after a crash between the write of a batch and Spark's own note of it.
    for file in (tmp_path / "checkpoint" / "commits").glob("*1*"):
        file.unlink()
    copy = source(spark, spark_namesrv, "AgainCopy", dropRepeats="true")
    finished(to_files(copy, tmp_path / "copy"))
    finished(to_topic(rows, spark_namesrv, "AgainCopy", tmp_path, **options))
    repeated = read(spark, spark_namesrv, "AgainCopy")
    assert times(repeated) == {1: 600, 2: 400}
    epochs = {Sequence.parse(r.properties[WRITER_SEQUENCE]).epoch for r in repeated.collect()}
    assert epochs == {0, 1}
    assert times(read(spark, spark_namesrv, "AgainCopy", dropRepeats="true")) == {1: 1000}
    finished(to_files(copy, tmp_path / "copy"))
    assert times(spark.read.parquet(str(tmp_path / "copy" / "rows"))) == {1: 1000}


def test_mistakes_are_told(spark: Any, spark_namesrv: str, tmp_path: Path) -> None:
    errors = pyspark.errors
    with pytest.raises(errors.PySparkException, match="did you mean 'maxOffsetsPerTrigger'"):
        source(spark, spark_namesrv, "T", maxOffsetPerTrigger="5")
    with pytest.raises(errors.PySparkException, match="'many'"):
        source(spark, spark_namesrv, "T", maxOffsetsPerTrigger="many")
    with pytest.raises(errors.PySparkException, match=r"is for streams: use spark\.readStream"):
        read(spark, spark_namesrv, "T", maxOffsetsPerTrigger="5").count()
    with pytest.raises(errors.PySparkException, match="topic Nowhere does not exist"):
        finished(to_files(source(spark, spark_namesrv, "Nowhere"), tmp_path / "a"))
    rows = source(spark, spark_namesrv, "T", startingOffsets='{"T"')
    with pytest.raises(errors.PySparkException, match="option 'startingOffsets' cannot be read"):
        finished(to_files(rows, tmp_path / "b"))


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[tuple[Servers, str, str]]:
    """A name server, and the settings of a broker that can be killed."""
    servers = Servers(tmp_path)
    try:
        names = tmp_path / "namesrv.yaml"
        names.write_text(json.dumps({"listenPort": 0, "bindAddress": "127.0.0.1"}))
        address = servers.start("namesrv", "namesrv", "-c", str(names))["namesrv"]
        settings = {
            "brokerName": "broker-a",
            "listenPort": free_broker_port(),
            "bindAddress": "127.0.0.1",
            "brokerIP1": "127.0.0.1",
            "namesrvAddr": address,
            "storePathRootDir": str(tmp_path / "broker"),
            "flushDiskType": "SYNC_FLUSH",
        }
        config = tmp_path / "broker.yaml"
        config.write_text(json.dumps(settings))
        servers.start("broker", "broker", "-c", str(config))
        yield servers, address, str(config)
    finally:
        servers.stop()


@needs_limits
@pytest.mark.crash
def test_a_broker_killed_in_mid_query_loses_and_repeats_nothing(
    spark: Any, alone: tuple[Servers, str, str], tmp_path: Path
) -> None:
    servers, namesrv, config = alone
    rows_count = 40_000
    write(numbers(spark, 0, rows_count), namesrv, "Mid")
    # Small pulls and retries without end: the broker dies while tasks read.
    options = {
        "maxOffsetsPerTrigger": "8000",
        "maxMsgBytes": "20000",
        "retryTimesWhenPullFailed": "50",
    }
    rows = source(spark, namesrv, "Mid", **options)
    with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as job:
        running = job.submit(finished, to_files(rows, tmp_path))
        first = tmp_path / "checkpoint" / "commits" / "0"
        while not first.exists():
            assert not running.done(), running.result()
        servers.kill("broker")
        servers.start("broker", "broker", "-c", config)
        running.result()
    assert times(spark.read.parquet(str(tmp_path / "rows"))) == {1: rows_count}
