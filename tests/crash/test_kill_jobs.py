"""`kill -9` of each job at any moment: the next run finishes it, and every message counts once."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from support.spark.driver import driver
from support.spark.parts import read_rows

from pocketmq.client.blocking import PullConsumer
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.testing import Cluster, LocalCluster

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.timeout(7200)]

log = logging.getLogger(__name__)

ROWS, SLICE_ROWS, QUEUES = 600, 200, 4
SOURCE, TARGET = "JobSource", "JobTarget"
RATE = "400"
JOBS = {
    "ingest": ("{in}", "--topic", TARGET, "--checkpoint", "{out}", "--write=rowsPerSecond=200"),
    "export": (SOURCE, "--to", "{out}", "--slice-rows", str(SLICE_ROWS)),
    "archive": (
        *(SOURCE, "--to", "{out}", "--slice-rows", str(SLICE_ROWS)),
        *("--margin-hours", "72"),
    ),
    "replay": (
        *(SOURCE, "--topic", TARGET, "--checkpoint", "{out}", "--slice-rows", str(SLICE_ROWS)),
        *("--rate", RATE),
    ),
}
STATES_MAX = 7
"""Of a run that is killed: up to so many states of its ledger after its beginning."""


class Progress:
    """How far a job is, in steps that all runs of it count together.

    Args:
        directory: of its ledger.
        consumer: counts the target.
    """

    def __init__(self, directory: Path, consumer: PullConsumer) -> None:
        self._directory, self._consumer = directory, consumer

    def states(self) -> int:
        """States of the ledger that were kept."""
        found = (self._directory / "_pocketmq").glob("state-*.json")
        return max((int(path.stem.partition("-")[2]) for path in found), default=0)

    def stored(self) -> int:
        """Messages in the target."""
        return sum(map(self._consumer.max_offset, self._consumer.queues(TARGET)))

    def moment(self, job: str, chance: random.Random) -> tuple[str, Callable[[], bool]]:
        """When to kill: in words, and whether it is there."""
        if job == "ingest" or (job == "replay" and chance.random() < 0.5):
            messages = self.stored() + chance.randrange(1, ROWS // 2)
            return f"{messages} messages", lambda: self.stored() >= messages
        states = self.states() + chance.randrange(1, STATES_MAX)
        return f"state {states}", lambda: self.states() >= states


def fill(cluster: Cluster) -> None:
    with cluster.producer() as producer:
        for first in range(0, ROWS, 50):
            batch = [Message(SOURCE, str(i)) for i in range(first, first + 50)]
            queue = MessageQueue(SOURCE, "broker-a", first // 50 % QUEUES)
            producer.send_batch(batch, queue=queue)


def write_files(directory: Path) -> None:
    directory.mkdir()
    for number in range(6):
        lines = (f"{i}\n" for i in range(number, ROWS, 6))
        (directory / f"{number}.csv").write_text("value\n" + "".join(lines))


def values(job: str, namesrv: str, directory: Path) -> Counter[int]:
    """What came of a job: how often each number counts."""
    import pyarrow.dataset as ds

    if job in ("ingest", "replay"):
        rows = read_rows(namesrv, TARGET, dropRepeats="true")
        return Counter(int(row["value"]) for row in rows)
    # Files and folders that begin with _ are passed over, as by Spark.
    table = ds.dataset(directory, format="parquet", partitioning="hive").to_table(["value"])
    return Counter(int(value) for value in table["value"].to_pylist())


def words(job: str, places: Mapping[str, str]) -> list[str]:
    given = JOBS[job]
    if job == "ingest":
        given = (*given, "--value", "value")
    return [word.format_map(places) for word in given]


@pytest.mark.whole_spark
@pytest.mark.parametrize("job", JOBS)
def test_a_job_killed_at_any_moment_is_finished_by_the_next_run(
    job: str, tmp_path: Path, rounds: int, chance: random.Random
) -> None:
    rounds = max(rounds // 2, 1)  # each of them starts a JVM
    files, out = tmp_path / "in", tmp_path / "out"
    write_files(files)
    killed = []
    with (
        LocalCluster(topics={SOURCE: QUEUES, TARGET: QUEUES}) as cluster,
        cluster.pull_consumer("counting") as consumer,
    ):
        fill(cluster)
        progress = Progress(out, consumer)
        places = {"in": str(files), "out": str(out)}
        program = f"pocketmq.spark.jobs.{job}"
        command = (program, *words(job, places), "--namesrv", cluster.namesrv, "--cores", "2")
        for _ in range(rounds):
            name, is_there = progress.moment(job, chance)
            with driver(*command) as run:
                while not is_there() and run.is_alive():
                    pass
                if run.is_alive():
                    run.kill()
                    killed.append(name)
        with driver(*command) as run:
            log.info("killed at %s; then: %s", ", ".join(killed), run.output().strip())
        found = values(job, cluster.namesrv, out)
        assert found == Counter(range(ROWS)), killed
        if job == "replay":
            everything = Counter(int(r["value"]) for r in read_rows(cluster.namesrv, TARGET))
            assert everything == found, "what was sent before a kill is not sent again"
