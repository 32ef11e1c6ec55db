"""Brokers that die, topics that grow and messages that expire while the source reads or writes.

The source's own reader and writer, on real brokers; what Spark adds (it runs tasks again) is in
test_spark_repeats and test_spark_speculation.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import pytest_asyncio
from support.brokers.broker_parts import Client, Stage
from support.spark.parts import CrashingCluster, read_rows, write_batches, writer_of

from pocketmq.client.errors import SendFailedError
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.brokers import DeleteExpiredFilesRequest
from pocketmq.spark.errors import DataLossError
from pocketmq.spark.jobs.progress import TopicGrowth
from pocketmq.spark.options import read_options
from pocketmq.testing.clock import VirtualClock

pytest.importorskip("pyspark.sql.datasource")

from pocketmq.spark.reading.reader import MessageReader, RangePartition

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

VALUE_SIZE = 100_000
ROWS = 100
"""Rows of one batch: more than the block of 8 MiB that is sent at once."""

SCHEMA = pa.schema([("value", pa.binary())])


def numbered(first: int, rows: int = ROWS) -> pa.RecordBatch:
    padding = b"x" * VALUE_SIZE
    return pa.record_batch([[b"%d %s" % (first + i, padding) for i in range(rows)]], schema=SCHEMA)


def times(namesrv: str, topic: str, **options: str) -> Counter[int]:
    """How often each number is there."""
    rows = read_rows(namesrv, topic, includeProperties="false", **options)
    return Counter(int(row["value"].split()[0]) for row in rows)


def once(rows: int) -> Counter[int]:
    return Counter(range(rows))


def wait_until_stored(namesrv: str, topic: str) -> None:
    growth = TopicGrowth(namesrv, topic)
    while growth.stored() == 0:
        pass


# -- writing ------------------------------------------------------------------------------------


@pytest.mark.crash
def test_a_write_goes_on_at_the_other_broker(tmp_path: Path) -> None:
    with CrashingCluster(tmp_path, "broker-a", "broker-b") as cluster:
        write_batches(cluster.namesrv, numbered(0, 0), topic="Go", createTopicQueues="2")

        def rows() -> Iterator[pa.RecordBatch]:
            yield numbered(0)
            yield numbered(ROWS)
            wait_until_stored(cluster.namesrv, "Go")
            cluster.kill("broker-a")
            yield numbered(2 * ROWS)
            yield numbered(3 * ROWS)

        options = {"topic": "Go", "writerId": "go", "batchBytes": "300000"}
        writer = writer_of(cluster.namesrv, SCHEMA, **options)
        written = writer.write(rows())
        assert sum(written.rows_by_queue.values()) == 4 * ROWS
        cluster.start("broker-a")
        writer.commit([written])
        assert times(cluster.namesrv, "Go", dropRepeats="true") == once(4 * ROWS)


@pytest.mark.crash
def test_a_write_without_any_broker_fails_and_its_rerun_counts_once(tmp_path: Path) -> None:
    with CrashingCluster(tmp_path, "broker-a") as cluster:
        write_batches(cluster.namesrv, numbered(0, 0), topic="One", createTopicQueues="2")
        options = {"topic": "One", "writerId": "one", "batchBytes": "300000"}

        def rows() -> Iterator[pa.RecordBatch]:
            yield numbered(0)
            yield numbered(ROWS)
            wait_until_stored(cluster.namesrv, "One")
            cluster.kill("broker-a")
            yield numbered(2 * ROWS)

        writer = writer_of(cluster.namesrv, SCHEMA, retryTimesWhenSendFailed="1", **options)
        with pytest.raises(SendFailedError):
            writer.write(rows())
        cluster.start("broker-a")
        left = times(cluster.namesrv, "One")
        assert 0 < left.total() < 3 * ROWS
        assert times(cluster.namesrv, "One", dropRepeats="true").total() == 0
        # In other tasks than before.
        write_batches(
            cluster.namesrv, *(numbered(first, 50) for first in range(0, 3 * ROWS, 50)), **options
        )
        assert times(cluster.namesrv, "One").total() == left.total() + 3 * ROWS
        assert times(cluster.namesrv, "One", dropRepeats="true") == once(3 * ROWS)


@pytest.mark.crash
def test_rows_bound_to_a_queue_wait_for_its_broker(tmp_path: Path) -> None:
    with CrashingCluster(tmp_path, "broker-a") as cluster:
        keys = pa.array([str(i % 7) for i in range(ROWS)])
        bound = numbered(0).append_column("shardingKey", keys)
        empty = bound.slice(0, 0)
        write_batches(cluster.namesrv, empty, topic="Bound", createTopicQueues="3")

        def rows() -> Iterator[pa.RecordBatch]:
            yield bound
            yield bound
            wait_until_stored(cluster.namesrv, "Bound")
            cluster.kill("broker-a")  # with requests under way, which wait for it
            cluster.start("broker-a")
            yield bound

        options = {"topic": "Bound", "markRows": "true", "batchBytes": "300000"}
        writer = writer_of(cluster.namesrv, bound.schema, retryTimesWhenSendFailed="60", **options)
        writer.commit([writer.write(rows())])
        found = times(cluster.namesrv, "Bound", dropRepeats="true")
        assert found == Counter(dict.fromkeys(range(ROWS), 3))


# -- reading ------------------------------------------------------------------------------------


class Reading:
    """A read of one task, in the middle of which things happen."""

    def __init__(self, namesrv: str, topic: str, **options: str) -> None:
        given = {"namesrvAddr": namesrv, "subscribe": topic, "maxMsgBytes": "1", **options}
        reader = MessageReader(read_options(given))
        self.parts = [p for p in reader.partitions() if isinstance(p, RangePartition)]
        self._batches = (batch for part in self.parts for batch in reader.read(part))
        self.values = [*self._taken(next(self._batches))]

    def finish(self) -> list[bytes]:
        """Reads what is left; returns all there was."""
        for batch in self._batches:
            self.values += self._taken(batch)
        return self.values

    def numbers(self) -> list[int]:
        return [int(value.split()[0]) for value in self.values]

    @staticmethod
    def _taken(batch: Any) -> list[bytes]:
        taken: list[bytes] = batch["value"].to_pylist()
        return taken


@pytest.mark.crash
def test_a_read_goes_on_when_its_broker_is_back(tmp_path: Path) -> None:
    with CrashingCluster(tmp_path, "broker-a") as cluster:
        write_batches(cluster.namesrv, numbered(0), topic="Back", createTopicQueues="1")
        reading = Reading(cluster.namesrv, "Back", retryTimesWhenPullFailed="60")
        assert len(reading.values) < ROWS
        cluster.kill("broker-a")
        cluster.start("broker-a")
        reading.finish()
        assert reading.numbers() == list(range(ROWS))


@pytest.mark.crash
def test_a_read_fails_clean_when_its_broker_stays_away(tmp_path: Path) -> None:
    with CrashingCluster(tmp_path, "broker-a") as cluster:
        write_batches(cluster.namesrv, numbered(0), topic="Away", createTopicQueues="1")
        reading = Reading(cluster.namesrv, "Away", retryTimesWhenPullFailed="1")
        cluster.kill("broker-a")
        with pytest.raises(OperatingError):
            reading.finish()
        assert len(reading.values) < ROWS


def test_a_topic_that_grows_is_read_to_where_it_ended_at_first(spark_namesrv: str) -> None:
    options = {"topic": "GrowsMeanwhile", "createTopicQueues": "1", "routing": "roundRobin"}
    write_batches(spark_namesrv, numbered(0), **options)
    reading = Reading(spark_namesrv, "GrowsMeanwhile")
    write_batches(spark_namesrv, numbered(ROWS), **options)
    reading.finish()
    assert sorted(reading.numbers()) == list(range(ROWS))
    assert times(spark_namesrv, "GrowsMeanwhile") == once(2 * ROWS)


def test_a_topic_that_was_made_anew_is_lost_data(spark_namesrv: str) -> None:
    options = {"topic": "Anew", "createTopicQueues": "1"}
    write_batches(spark_namesrv, numbered(0), **options)
    beyond = json.dumps({"Anew": {"broker-a": {"0": 5}, "broker-b": {"0": 5}}})
    read_rows(spark_namesrv, "Anew", startingOffsets=beyond)
    far = json.dumps({"Anew": {"broker-a": {"0": 5000}}})
    with pytest.raises(DataLossError, match=r"the broker holds 0 to "):
        read_rows(spark_namesrv, "Anew", startingOffsets=beyond, endingOffsets=far)


# -- retention ----------------------------------------------------------------------------------

TOPIC = "Expires"


@pytest_asyncio.fixture
async def expiring(
    tmp_path: Path, clock: VirtualClock, seed: int
) -> AsyncIterator[tuple[Client, str]]:
    """A broker whose messages expire after an hour of its own clock, and its name server."""
    names = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")
    async with NameServer(names) as namesrv, Stage(tmp_path, clock, seed) as stage:
        address = namesrv.address
        client = await stage.started_with_topic(
            TOPIC,
            1,
            namesrv_addr=address,
            segment_size=64 * 1024,
            file_reserved_time=1,
            clean_resource_interval=3_600_000,
            flush_interval_commit_log=600_000,
            flush_delay_offset_interval=600_000,
        )
        yield client, address


async def expire(client: Client, clock: VirtualClock) -> None:
    """Lets what is stored so far expire, and be deleted."""
    await clock.advance(7300)
    await client.send(b"last", topic=TOPIC)
    for _ in range(2):
        await client.broker.store.checkpoint()
        await client.ask(DeleteExpiredFilesRequest())


@pytest.mark.parametrize("fails", [True, False])
async def test_messages_that_expire_while_they_are_read(
    expiring: tuple[Client, str], clock: VirtualClock, fails: bool
) -> None:
    client, namesrv = expiring
    for number in range(60):
        await client.send(b"%d %s" % (number, b"x" * 40_000), topic=TOPIC)
    reading = await asyncio.to_thread(
        Reading, namesrv, TOPIC, failOnDataLoss=str(fails).lower(), consumerGroup="expiring"
    )
    seen = len(reading.values)
    assert seen < 60
    await expire(client, clock)
    log = client.broker.store.find_log(TOPIC, 0)
    assert log is not None
    assert log.min_offset >= 60
    if not fails:
        await asyncio.to_thread(reading.finish)
        assert reading.numbers() == list(range(len(reading.values)))
        return
    with pytest.raises(DataLossError) as caught:
        await asyncio.to_thread(reading.finish)
    error = caught.value
    assert (error.queue, error.wanted_end) == (f"{TOPIC}@{client.broker.config.broker_name}:0", 60)
    assert error.wanted_start >= seen
    assert error.min_offset == log.min_offset
