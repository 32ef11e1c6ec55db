"""Jobs on a standalone Spark cluster: submitted, shipped as a zip, and robust."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset
from support.commands.here import Command, here
from support.spark.cluster import JOBS, SparkCluster, spark_cluster
from support.spark.fault_job import ROWS
from support.spark.parts import created_topic, read, read_rows, write_batches
from support.spark.streams import needs_limits, needs_stream_writes

from pocketmq.client.blocking import Producer
from pocketmq.protocol.messages.message import Message
from pocketmq.spark.jobs.progress import TopicGrowth

pytest.importorskip("pyspark")

__all__ = ["here"]

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]  # several JVMs on a busy machine


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("standalone")) as started:
        yield started


def ended(process: subprocess.Popen[str]) -> str:
    """What a job that succeeds prints to standard output."""
    out, err = process.communicate()
    assert process.returncode == 0, err[-5000:]
    return out


def rows_file(directory: Path, rows: int, files: int = 4) -> Path:
    path = directory / "rows"
    path.mkdir()
    for number in range(files):
        lines = (f'{{"id": {i}}}' for i in range(number, rows, files))
        (path / f"{number}.json").write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.whole_spark
def test_a_node_has_this_project_only_by_the_zip(cluster: SparkCluster) -> None:
    alone = [str(cluster.python), "-c", "import pocketmq.spark"]
    ran = subprocess.run(
        alone, env=cluster.environment(), capture_output=True, text=True, check=False, cwd="/"
    )
    assert "ModuleNotFoundError" in ran.stderr


@pytest.mark.whole_spark
def test_submitted_jobs_load_and_export(
    cluster: SparkCluster, spark_namesrv: str, spark: Any, tmp_path: Path
) -> None:
    source = rows_file(tmp_path, 20_000)
    to_topic = ("--topic", "Submitted", "--namesrv", spark_namesrv)
    loaded = ended(cluster.submit(JOBS / "ingest.py", str(source), *to_topic))
    assert loaded.startswith("20,000 rows in ")
    target = tmp_path / "out"
    exported = ended(
        cluster.submit(
            JOBS / "export.py", "Submitted", "--to", str(target), "--namesrv", spark_namesrv
        )
    )
    assert exported.startswith("20,000 rows in ")
    values = spark.read.parquet(str(target)).selectExpr("cast(value as string) value").collect()
    assert sorted(json.loads(row.value)["id"] for row in values) == list(range(20_000))


@pytest.mark.whole_spark
def test_submitted_jobs_replay_and_archive(
    cluster: SparkCluster, spark_namesrv: str, tmp_path: Path
) -> None:
    created_topic(spark_namesrv, "ToReplay", 4)
    with Producer("submitted", spark_namesrv) as producer:
        for i in range(300):
            properties = {"__SHARDINGKEY": f"s{i % 3}"} if i % 2 else {}
            producer.send(Message("ToReplay", str(i).encode(), properties=properties))
    where = ("--namesrv", spark_namesrv)
    replaying = ("ToReplay", "--topic", "Replayed", "--write", "createTopicQueues=4")
    checkpoint = ("--checkpoint", str(tmp_path / "checkpoint"), "--slice-rows", "200")
    for expected in ("300 of 300 messages sent", "nothing new in ToReplay"):
        job = cluster.submit(JOBS / "replay.py", *replaying, *checkpoint, *where)
        assert ended(job).startswith(expected)
    for options in ({}, {"dropRepeats": "true"}):
        rows = read_rows(spark_namesrv, "Replayed", **options)
        assert sorted(int(row["value"]) for row in rows) == list(range(300))
        assert all(row["properties"]["WRITER_ID"] for row in rows)
    target = tmp_path / "archive"
    archiving = ("ToReplay", "--to", str(target), "--margin-hours", "72")
    for expected in ("300 rows in ", "nothing new in ToReplay"):
        assert ended(cluster.submit(JOBS / "archive.py", *archiving, *where)).startswith(expected)
    table = dataset.dataset(target, format="parquet", partitioning="hive").to_table(["value"])
    assert sorted(map(int, table["value"].to_pylist())) == list(range(300))


@pytest.mark.whole_spark
@pytest.mark.crash
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc")
def test_an_executor_killed_in_the_middle_of_a_write_loses_nothing(
    cluster: SparkCluster, spark_namesrv: str, spark: Any, tmp_path: Path
) -> None:
    rows = 40_000
    source = rows_file(tmp_path, rows, files=8)
    to_topic = ("--topic", "KilledExecutor", "--namesrv", spark_namesrv)
    loading = cluster.submit(JOBS / "ingest.py", str(source), *to_topic)
    growth = TopicGrowth(spark_namesrv, "KilledExecutor")
    while growth.rows() == 0:
        assert loading.poll() is None, ended(loading)
    os.kill(cluster.executors()[0], signal.SIGKILL)
    ended(loading)
    values = read(spark, spark_namesrv, "KilledExecutor").select("value").collect()
    assert {json.loads(row.value)["id"] for row in values} == set(range(rows))


@pytest.mark.whole_spark
@pytest.mark.crash
@pytest.mark.skipif(sys.platform != "linux", reason="the workers need two loopback addresses")
def test_twins_of_tasks_and_killed_executors_repeat_nothing_that_counts(
    cluster: SparkCluster, spark_namesrv: str, tmp_path: Path
) -> None:
    created_topic(spark_namesrv, "Twins", 2)
    job = cluster.submit(
        Path(__file__).parents[1] / "support" / "spark" / "fault_job.py",
        *(spark_namesrv, "Twins", str(tmp_path / "attempts")),
        settings=(
            "sql.execution.arrow.maxRecordsPerBatch=1000",
            "speculation=true",
            "speculation.interval=100ms",
            "speculation.quantile=0.1",
            "speculation.multiplier=1.1",
            "speculation.minTaskRuntime=100ms",
        ),
    )
    found = json.loads(ended(job))
    rows, distinct = found["all"]
    assert distinct == ROWS
    assert rows > ROWS, "nothing was repeated"
    assert found["counted"] == [ROWS, ROWS]


@needs_limits
@needs_stream_writes
@pytest.mark.whole_spark
def test_executors_read_and_write_streams(
    cluster: SparkCluster, spark_namesrv: str, here: Command, tmp_path: Path
) -> None:
    values = pa.record_batch({"value": [str(i) for i in range(1000)]})
    write_batches(spark_namesrv, values, topic="Streamed", createTopicQueues="2")
    created_topic(spark_namesrv, "StreamedCopy", 2)
    job = cluster.submit(
        Path(__file__).parents[1] / "support" / "spark" / "stream_job.py",
        *(spark_namesrv, "Streamed", "StreamedCopy", str(tmp_path / "job")),
    )
    assert json.loads(ended(job)) == {"batches": [600, 400], "times": {"1": 1000}}
    code, lag, errors = here("group", "lag", "stream-job", "--namesrv", spark_namesrv, "-o", "json")
    assert code == 0, errors
    [row] = json.loads(lag)
    assert (row["topic"], row["lag"], row["queues"]) == ("Streamed", 0, 4)
