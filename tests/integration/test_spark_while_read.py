"""A topic that grows, and one that loses its oldest messages, while a real Spark job reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.spark.gates import Gate, meanwhile, reason, small_batches
from support.spark.parts import read, write

from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.testing import Cluster, LocalCluster

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.spark, pytest.mark.whole_spark, pytest.mark.timeout(900)]

TOPIC = "Changes"
ROWS, SIZE = 20_000, 4000
"""80 MB: more than lies in the pipes behind a read."""


@pytest.fixture(autouse=True)
def batches(spark: Any) -> Iterator[None]:
    with small_batches(spark):
        yield


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A broker that keeps messages for an hour of its own clock."""
    settings = {"segment_size": 1 << 20, "file_reserved_time": 1}
    with LocalCluster(broker_settings=settings, topics={TOPIC: 1}) as started:
        yield started


def fill(spark: Any, cluster: Cluster) -> None:
    rows = spark.range(0, ROWS, 1, 1).selectExpr(
        f"concat(lpad(id, 8, '0'), repeat('x', {SIZE})) value"
    )
    write(rows, cluster.namesrv, TOPIC)


def numbers(frame: Any) -> list[int]:
    found = frame.selectExpr("cast(substring(value, 1, 8) as string) n").collect()
    return sorted(int(row.n) for row in found)


def test_a_topic_that_grows_is_read_to_where_it_ended_at_first(
    spark: Any, cluster: Cluster, tmp_path: Path
) -> None:
    fill(spark, cluster)
    gate = Gate(tmp_path / "gate")
    frame = read(spark, cluster.namesrv, TOPIC, maxMsgBytes="200000")
    with meanwhile(spark, numbers, gate.after(frame, 500)) as job:
        while not gate.begun.exists():
            assert not job.done(), job.result()
        with cluster.producer() as producer:
            producer.send(Message(TOPIC, b"%08d" % ROWS))
        with gate.opened():
            assert job.result() == list(range(ROWS))
    again = read(spark, cluster.namesrv, TOPIC)
    assert numbers(again) == list(range(ROWS + 1))


@pytest.mark.parametrize("fails", [True, False])
def test_messages_that_expire_while_they_are_read(
    spark: Any, cluster: Cluster, tmp_path: Path, fails: bool
) -> None:
    fill(spark, cluster)
    gate = Gate(tmp_path / "gate")
    options = {"maxMsgBytes": "200000", "failOnDataLoss": str(fails).lower()}
    frame = read(spark, cluster.namesrv, TOPIC, **options)
    with meanwhile(spark, numbers, gate.after(frame, 500)) as job:
        while not gate.begun.exists():
            assert not job.done(), job.result()
        expire(cluster)
        with gate.opened():
            why = reason(job)
    if fails:
        assert f"{TOPIC}@broker-a:0" in why
        assert f"to {ROWS} were to be read, the broker holds " in why
        return
    assert not why
    found = job.result()
    assert found[:500] == list(range(500))
    assert len(found) < ROWS, "nothing had expired"


def expire(cluster: Cluster) -> None:
    """Lets all but the last messages expire, and be deleted."""
    queue = MessageQueue(TOPIC, "broker-a", 0)
    with (
        cluster.producer() as producer,
        cluster.admin() as admin,
        cluster.pull_consumer("looks") as consumer,
    ):
        cluster.clock.advance(hours=3)
        producer.send(Message(TOPIC, b"%08d" % ROWS), queue=queue)
        while consumer.min_offset(queue) < ROWS - 1000:
            admin.clean_broker(cluster.brokers["broker-a"])
            cluster.clock.advance(minutes=11)
