"""`kill -9` of a broker while a real Spark job writes marked rows to it, or reads them.

The seed chooses the moment, the broker, how rows find their queue, and whether the broker comes
back while the job runs. The job goes on, or fails with the reason; after it was run again every row
counts once.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.spark.gates import Gate, meanwhile, reason, small_batches
from support.spark.parts import CrashingCluster, created_topic, read, write

from pocketmq.spark.jobs.progress import TopicGrowth

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.timeout(1800)]

ROWS, SIZE = 16_000, 4000
"""64 MB: more than a task collects before it sends, and than lies in the pipes behind a read."""

PARTITIONS = 4
BROKERS = ("broker-a", "broker-b")
UNREACHABLE = r"broker-[ab]|127\.0\.0\.1:\d+"
"""Who, in the reason of a job that failed."""


@pytest.fixture(autouse=True)
def batches(spark: Any) -> Iterator[None]:
    with small_batches(spark):
        yield


@pytest.fixture
def rounds(request: pytest.FixtureRequest) -> int:
    """How often a broker is killed in one test; each costs a job or two of Spark."""
    count: int = request.config.option.crash_rounds
    return max(count // 2, 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[CrashingCluster]:
    with CrashingCluster(tmp_path, *BROKERS) as started:
        yield started


def numbers(spark: Any, partitions: int, *, is_sharded: bool) -> Any:
    rows = spark.range(0, ROWS, 1, partitions).selectExpr(
        f"concat(lpad(id, 8, '0'), repeat('x', {SIZE})) value"
    )
    return rows.selectExpr("value", "left(value, 7) shardingKey") if is_sharded else rows


def times(frame: Any) -> Counter[int]:
    """How many rows are there how often."""
    number = "cast(cast(substring(value, 1, 8) as string) as int) n"
    found = frame.selectExpr(number).collect()
    assert {row.n for row in found} <= set(range(ROWS))
    return Counter(Counter(row.n for row in found).values())


def counted(spark: Any, cluster: CrashingCluster, topic: str) -> Counter[int]:
    """The same for a new read without repeats: the first action settles what a read finds."""
    return times(read(spark, cluster.namesrv, topic, dropRepeats="true"))


ONCE = Counter({1: ROWS})


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
        held = gate.last_rows_of(rows, PARTITIONS - 1)
        with meanwhile(spark, write, held, cluster.namesrv, topic, **options) as job:
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
        if why:
            assert not comes_back, case
            assert re.search(UNREACHABLE, why), case
            assert counted(spark, cluster, topic) == Counter(), case
            # Other partitions than the first time, as on a cluster of another size.
            again = numbers(spark, PARTITIONS + 1, is_sharded=is_sharded)
            write(again, cluster.namesrv, topic, **options)
        assert counted(spark, cluster, topic) == ONCE, case


@pytest.mark.whole_spark
def test_a_read_goes_on_or_fails_and_its_rerun_gives_each_row_once(
    spark: Any, cluster: CrashingCluster, tmp_path: Path, rounds: int, chance: random.Random
) -> None:
    topic = "KilledInRead"
    rows = numbers(spark, PARTITIONS, is_sharded=False)
    write(rows, cluster.namesrv, topic, createTopicQueues="1", markRows="true")
    for number in range(rounds):
        comes_back, moment = chance.random() < 0.5, chance.randrange(1, 2000)
        gate = Gate(tmp_path / f"gate-{number}")
        options = {"dropRepeats": "true", "maxMsgBytes": "200000", "includeProperties": "false"}
        options["retryTimesWhenPullFailed"] = "60" if comes_back else "1"
        frame = read(spark, cluster.namesrv, topic, **options)
        with meanwhile(spark, times, gate.after(frame, moment)) as job:
            while not gate.begun.exists():
                assert not job.done(), job.result()
            victim = gate.begun.read_text()
            cluster.kill(victim)
            if comes_back:
                cluster.start(victim)
            with gate.opened():
                why = reason(job)
        case = (number, comes_back, victim, moment, why)
        assert bool(why) != comes_back, case
        if why:
            assert re.search(UNREACHABLE, why), case
            cluster.start(victim)
            assert times(frame) == ONCE, case
        else:
            assert job.result() == ONCE, case
