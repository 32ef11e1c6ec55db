"""`kill -9` of a broker while a real Spark job writes marked rows to it, or reads them.

The seed chooses the moment, the broker, how rows find their queue, and whether the broker comes
back while the job runs. The job goes on, or fails with the reason; after it was run again every row
counts once.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.spark_parts import CrashingCluster, created_topic, read, write

from pocketmq.spark import register
from pocketmq.spark.jobs.failures import reason_of
from pocketmq.spark.jobs.progress import TopicGrowth

pyspark = pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.timeout(1800)]

ROWS, SIZE = 16_000, 4000
"""64 MB: more than a task collects before it sends, and than lies in the pipes behind a read."""

PARTITIONS = 4
BROKERS = ("broker-a", "broker-b")
BATCH_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
UNREACHABLE = r"broker-[ab]|127\.0\.0\.1:\d+"
"""Who, in the reason of a job that failed."""


@pytest.fixture(autouse=True)
def small_batches(spark: Any) -> Iterator[None]:
    """So that rows reach the next task before the last ones are made."""
    before = spark.conf.get(BATCH_SETTING)
    spark.conf.set(BATCH_SETTING, "100")
    yield
    spark.conf.set(BATCH_SETTING, before)


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a broker is killed in one test; each costs a job or two of Spark."""
    count: int = request.config.option.crash_rounds
    return max(count // 2, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CrashingCluster]:
    with CrashingCluster(tmp_path, *BROKERS) as started:
        yield started


class Gate:
    """Holds tasks up until a broker is killed: who opens a pipe waits for its other end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lets all tasks pass, from now on."""
        ends = os.open(self.path, os.O_RDWR)
        try:
            yield
        finally:
            os.close(ends)


def numbers(spark: Any, partitions: int, *, is_sharded: bool) -> Any:
    rows = spark.range(0, ROWS, 1, partitions).selectExpr(
        f"concat(lpad(id, 8, '0'), repeat('x', {SIZE})) value"
    )
    return rows.selectExpr("value", "left(value, 7) shardingKey") if is_sharded else rows


def held_up(rows: Any, gate: Gate) -> Any:
    """The rows, of which the last ones come only when the gate is open."""
    path = str(gate.path)

    def hold(batches: Iterator[Any]) -> Iterator[Any]:
        table = pa.Table.from_batches(list(batches))
        is_last = pyspark.TaskContext.get().partitionId() == PARTITIONS - 1
        first = table.num_rows - 100 if is_last else table.num_rows
        yield from table.slice(0, first).to_batches(max_chunksize=100)
        if is_last:
            with open(path, "rb"):
                yield from table.slice(first).to_batches()

    return rows.mapInArrow(hold, rows.schema)


def stopped(rows: Any, gate: Gate, begun: Path, rows_count: int) -> Any:
    """The rows; the first task that has read so many names its broker, and waits at the gate."""
    path, begun_path = str(gate.path), str(begun)

    def stop(batches: Iterator[Any]) -> Iterator[Any]:
        seen = 0
        for batch in batches:
            yield batch.select(["value"])
            seen += batch.num_rows
            if seen < rows_count or os.path.exists(begun_path):
                continue
            unfinished = f"{begun_path}.{os.getpid()}"
            with open(unfinished, "w") as file:
                file.write(batch["brokerName"][0].as_py())
            try:
                os.link(unfinished, begun_path)
            except FileExistsError:
                continue  # another task was first
            with open(path, "rb"):
                pass

    return rows.select("value", "brokerName").mapInArrow(stop, "value binary")


def times(frame: Any) -> Counter[int]:
    """How many rows are there how often."""
    found = frame.selectExpr("cast(cast(substring(value, 1, 8) as string) as int) n").collect()
    assert {row.n for row in found} <= set(range(ROWS))
    return Counter(Counter(row.n for row in found).values())


ONCE = Counter({1: ROWS})


def reason(job: Any) -> str:
    """Why a job failed; empty if it did not."""
    error = job.exception()
    assert error is None or isinstance(error, pyspark.errors.PySparkException), error
    return "" if error is None else reason_of(error)


def test_a_marked_write_goes_on_or_its_rerun_counts_once(
    spark: Any, cluster: CrashingCluster, tmp_path: Path, rounds: int, chance: random.Random
) -> None:
    for number in range(rounds):
        topic = f"KilledInWrite{number}"
        created_topic(cluster.namesrv, topic, 2)
        is_sharded, comes_back = chance.random() < 0.5, chance.random() < 0.5
        victim, moment = chance.choice(BROKERS), chance.randrange(1, ROWS // 2)
        gate, growth = Gate(tmp_path / topic), TopicGrowth(cluster.namesrv, topic)
        options = {"writerId": topic, "batchBytes": "200000"}
        options["retryTimesWhenSendFailed"] = "60" if comes_back else "1"
        rows = numbers(spark, PARTITIONS, is_sharded=is_sharded)
        with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as jobs:
            job = jobs.submit(write, held_up(rows, gate), cluster.namesrv, topic, **options)
            while growth.stored() < moment:
                assert not job.done(), job.result()
            cluster.kill(victim)
            if comes_back:
                cluster.start(victim)
            with gate.opened():
                why = reason(job)
        if not comes_back:
            cluster.start(victim)
        case = (number, topic, is_sharded, comes_back, victim, moment, why)

        def counted(topic: str = topic) -> Counter[int]:
            return times(read(spark, cluster.namesrv, topic, dropRepeats="true"))

        if why:
            assert not comes_back, case
            assert re.search(UNREACHABLE, why), case
            assert counted() == Counter(), case
            # Other partitions than the first time, as on a cluster of another size.
            again = numbers(spark, PARTITIONS + 1, is_sharded=is_sharded)
            write(again, cluster.namesrv, topic, **options)
        assert counted() == ONCE, case


def test_a_read_goes_on_or_fails_and_its_rerun_gives_each_row_once(
    spark: Any, cluster: CrashingCluster, tmp_path: Path, rounds: int, chance: random.Random
) -> None:
    topic = "KilledInRead"
    rows = numbers(spark, PARTITIONS, is_sharded=False)
    write(rows, cluster.namesrv, topic, createTopicQueues="1", markRows="true")
    for number in range(rounds):
        comes_back, moment = chance.random() < 0.5, chance.randrange(1, 2000)
        gate, begun = Gate(tmp_path / f"gate-{number}"), tmp_path / f"begun-{number}"
        options = {"dropRepeats": "true", "maxMsgBytes": "200000", "includeProperties": "false"}
        options["retryTimesWhenPullFailed"] = "60" if comes_back else "1"
        frame = read(spark, cluster.namesrv, topic, **options)
        with ThreadPoolExecutor(1, initializer=register, initargs=(spark,)) as jobs:
            job = jobs.submit(times, stopped(frame, gate, begun, moment))
            while not begun.exists():
                assert not job.done(), job.result()
            victim = begun.read_text()
            cluster.kill(victim)
            if comes_back:
                cluster.start(victim)
            with gate.opened():
                why = reason(job)
        case = (number, comes_back, victim, moment, why)
        assert bool(why) != comes_back, case
        if why:
            cluster.start(victim)
            assert times(frame) == ONCE, case
        else:
            assert job.result() == ONCE, case
