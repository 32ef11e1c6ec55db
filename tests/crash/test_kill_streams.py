"""`kill -9` of a Spark driver in the middle of streaming queries: every row counts exactly once.

The moments are chosen by the seed: a batch is planned, half-written, written or done.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from support.spark.driver import driver
from support.spark.stream_process import BATCH_ROWS, SOURCE, TARGET

from pocketmq.client.blocking import PullConsumer
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.testing import Cluster, LocalCluster

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.crash, pytest.mark.timeout(7200)]

log = logging.getLogger(__name__)

PROGRAM = "crash.stream_process"
QUEUES = 4
BATCHES_A_ROUND = 8
STEPS = {
    "planned": ("files", "checkpoint/offsets"),
    "written": ("files", "rows/_spark_metadata"),
    "done": ("files", "checkpoint/commits"),
    "planned for the topic": ("topic", "checkpoint/offsets"),
    "done for the topic": ("topic", "checkpoint/commits"),
}
"""Where a query leaves a file named after the number of a batch, by what it says then."""


def result(output: str) -> dict[str, dict[str, int]]:
    """What the program finds."""
    line = next(line for line in output.splitlines() if line.startswith("found "))
    found: dict[str, dict[str, int]] = json.loads(line.removeprefix("found "))
    return found


def moment(
    consumer: PullConsumer, directory: Path, chance: random.Random
) -> tuple[str, Callable[[], bool]]:
    """When to kill: its name, and whether it is there."""
    how = chance.choice(["half-written", *STEPS])
    if how == "half-written":
        wanted = stored(consumer) + chance.randrange(1, 3 * BATCH_ROWS)
        return f"{wanted} messages in the target", lambda: stored(consumer) >= wanted
    query, place = STEPS[how]
    folder = directory / query / place
    done = [int(f.name) for f in folder.glob("*") if f.name.isdecimal()]
    number = max(done, default=-1) + chance.randrange(1, 4)
    return f"batch {number} {how}", (folder / str(number)).exists


def stored(consumer: PullConsumer) -> int:
    """Messages of the target."""
    return sum(map(consumer.max_offset, consumer.queues(TARGET)))


def fill(cluster: Cluster, topic: str, count: int) -> None:
    with cluster.producer() as producer:
        for first in range(0, count, 100):
            batch = [Message(topic, str(i)) for i in range(first, min(first + 100, count))]
            producer.send_batch(batch, queue=MessageQueue(topic, "broker-a", first // 100 % QUEUES))


@pytest.mark.whole_spark
def test_a_driver_killed_at_any_moment_loses_and_repeats_nothing(
    tmp_path: Path, rounds: int, chance: random.Random
) -> None:
    rounds = max(rounds // 2, 1)  # each of them starts a JVM
    rows = BATCH_ROWS * BATCHES_A_ROUND * rounds
    killed = []
    with (
        LocalCluster(topics={SOURCE: QUEUES, TARGET: QUEUES}) as cluster,
        cluster.pull_consumer("counting") as consumer,
    ):
        fill(cluster, SOURCE, rows)
        for _ in range(rounds):
            name, is_there = moment(consumer, tmp_path, chance)
            with driver(PROGRAM, cluster.namesrv, str(tmp_path)) as run:
                while not is_there():
                    assert run.is_alive(), f"the driver ended before {name}"
                run.kill()
            killed.append(name)
        with driver(PROGRAM, cluster.namesrv, str(tmp_path), "finish") as run:
            found = result(run.output())
    log.info("killed at %s; found %s", ", ".join(killed), found)
    repeats = found.pop("all")
    assert all(times == {"1": rows} for times in found.values()), (killed, found)
    assert sum(repeats.values()) == rows, "nothing is missing in the target"
