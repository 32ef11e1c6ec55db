"""Spark jobs go on, unmodified, while the leader of a broker set of two is switched and killed.

What the connector guarantees, and what is shown here: a read gives each row once, since it goes by
offsets. A write stores each row at least once, and a reader that drops repeats gets each row of a
marked one once. A stream into files, or with marks into a topic, loses and repeats nothing.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.arbiters.broker_sets import BrokerSet, broker_set
from support.interop.leader_changes import MEMBERS, kill, switch
from support.spark.gates import Gate, meanwhile, reason, small_batches
from support.spark.parts import created_topic, read, write, writer_of
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
from pocketmq.protocol.errors import OperatingError
from pocketmq.spark.errors import MissingTopicError
from pocketmq.spark.jobs.progress import TopicGrowth
from pocketmq.spark.options import read_options

pytest.importorskip("pyspark")

from pocketmq.spark.reading.reader import MessageReader

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
whole = pytest.mark.whole_spark

PARTITIONS = 2
SIZE = 4000
READ_ROWS = 16_000
"""64 MB: more than lies in the pipes behind a read."""

WRITTEN_ROWS = 2000
PACE = {"rowsPerSecond": "200", "batchBytes": "40000"}
"""Requests are under way for some seconds."""

STEP = 300
BATCH_ROWS = 100
CHANGES = (switch, kill, switch)


LOOKS = 30
"""How often somebody else asks for a route while a step of a job meets no leader."""


@pytest.fixture
def batches(spark: Any) -> Iterator[None]:
    with small_batches(spark):
        yield


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerSet]:
    with broker_set(tmp_path_factory.mktemp("set")) as running:
        running.wait_until_in_sync(*MEMBERS)
        yield running


def stored(pair: BrokerSet, topic: str) -> int:
    """How many messages the topic got by now; 0 while nobody can tell."""
    try:
        return TopicGrowth(pair.namesrv, topic).stored()
    except (OperatingError, MissingTopicError):
        return 0


def long_numbers(spark: Any, count: int) -> Any:
    return spark.range(0, count, 1, PARTITIONS).selectExpr(
        f"concat(lpad(id, 8, '0'), repeat('x', {SIZE})) value"
    )


def counted(frame: Any) -> Counter[int]:
    """How many rows of a job are there how often."""
    return times(frame.selectExpr("left(cast(value as string), 8) value"))


def change_behind(
    gate: Gate, pair: BrokerSet, job: Future[Any], has_begun: Callable[[], bool]
) -> None:
    """Changes the leader again and again once a job has begun; then lets the job end well."""
    try:
        while not has_begun():
            assert not job.done(), job.result()
        for change in CHANGES:
            change(pair)
    finally:
        with gate.opened():
            why = reason(job)
    assert not why


@contextmanager
def no_leader(pair: BrokerSet) -> Iterator[None]:
    """Kills the leader while the other member is frozen, which goes on at the end."""
    leader = pair.leader(*MEMBERS)
    frozen = pair.members[sum(MEMBERS) - leader]
    frozen.send(signal.SIGSTOP)
    pair.members[leader].stop()
    try:
        yield
    finally:
        frozen.send(signal.SIGCONT)
        pair.members[leader].start()
        pair.wait_until_in_sync(*MEMBERS)


def steps_of_write(namesrv: str, topic: str) -> Iterator[None]:
    """A marked write as Spark makes it, without Spark."""
    rows = pa.record_batch({"value": ["row"]})
    writer = writer_of(namesrv, rows.schema, topic=topic, markRows="true")
    yield
    written = [writer.write(iter([rows]))]
    yield
    writer.commit(written)


def steps_of_read(namesrv: str, topic: str) -> Iterator[None]:
    """A read of a marked topic as Spark makes it."""
    reader = MessageReader(
        read_options({"namesrvAddr": namesrv, "subscribe": topic, "dropRepeats": "true"})
    )
    partitions = reader.partitions()
    yield
    assert read_with(reader, partitions) == [b"row"]


def read_with(reader: MessageReader, partitions: Sequence[Any]) -> list[bytes]:
    """The values that a read gives."""
    rows = [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]
    return [row["value"] for row in rows]


def steps_of_times(namesrv: str, topic: str) -> Iterator[None]:
    """The planning of a read that begins at a time."""
    given = {"namesrvAddr": namesrv, "subscribe": topic, "startingTimestamp": "1"}
    assert len(MessageReader(read_options(given)).partitions()) == 1
    yield


@pytest.mark.parametrize(
    ("steps", "number"),
    [
        pytest.param(steps_of_write, 0, id="a write is planned"),
        pytest.param(steps_of_write, 1, id="rows are written"),
        pytest.param(steps_of_write, 2, id="a write is committed"),
        pytest.param(steps_of_read, 0, id="a read is planned"),
        pytest.param(steps_of_read, 1, id="rows are read"),
        pytest.param(steps_of_times, 0, id="a read by time is planned"),
    ],
)
def test_each_step_of_a_job_waits_for_a_leader(
    pair: BrokerSet, steps: Callable[[str, str], Iterator[None]], number: int
) -> None:
    topic = f"{steps.__name__}{number}"
    created_topic(pair.namesrv, topic, 2)
    for _ in steps_of_write(pair.namesrv, topic):
        pass
    job = steps(pair.namesrv, topic)
    for _ in range(number):
        next(job)
    with ThreadPoolExecutor(1) as pool:
        with no_leader(pair):
            step = pool.submit(next, job, None)
            for _ in range(LOOKS):
                with Admin(pair.namesrv) as admin:
                    admin.topic_route(topic)
        step.result()
    for _ in job:
        pass
    given = {"namesrvAddr": pair.namesrv, "subscribe": topic, "dropRepeats": "true"}
    reader = MessageReader(read_options(given))
    writes = 2 if steps is steps_of_write else 1
    assert read_with(reader, reader.partitions()) == [b"row"] * writes


@whole
@pytest.mark.usefixtures("batches")
@pytest.mark.parametrize("marks", ["true", "false"])
def test_a_write_goes_on(spark: Any, pair: BrokerSet, tmp_path: Path, marks: str) -> None:
    topic = f"Written-{marks}"
    gate = Gate(tmp_path / "gate")
    rows = gate.last_rows_of(long_numbers(spark, WRITTEN_ROWS), PARTITIONS - 1)
    with meanwhile(spark, write, rows, pair.namesrv, topic, markRows=marks, **PACE) as job:
        change_behind(gate, pair, job, lambda: stored(pair, topic) > 0)
    found = counted(read(spark, pair.namesrv, topic, dropRepeats=marks))
    assert found[1] == WRITTEN_ROWS if marks == "true" else found.total() == WRITTEN_ROWS


@whole
@pytest.mark.usefixtures("batches")
def test_a_read_goes_on(spark: Any, pair: BrokerSet, tmp_path: Path) -> None:
    topic = "Read"
    write(long_numbers(spark, READ_ROWS), pair.namesrv, topic, markRows="true")
    gate = Gate(tmp_path / "gate")
    frame = read(spark, pair.namesrv, topic, maxMsgBytes="200000", dropRepeats="true")
    with meanwhile(spark, counted, gate.after(frame, BATCH_ROWS)) as job:
        change_behind(gate, pair, job, gate.begun.exists)
    assert job.result() == {1: READ_ROWS}


@whole
@pytest.mark.usefixtures("batches")
@needs_limits
@needs_stream_writes
def test_streams_go_on(spark: Any, pair: BrokerSet, tmp_path: Path) -> None:
    write(numbers(spark, 0, STEP), pair.namesrv, "Streamed")
    rows = source(spark, pair.namesrv, "Streamed", maxOffsetsPerTrigger=str(BATCH_ROWS))
    copy = to_topic(
        rows.select("value"), pair.namesrv, "Copied", tmp_path / "topic", markRows="true"
    )
    files = to_files(rows, tmp_path / "files")
    queries = [copy.start(), files.start()]
    end = STEP
    for change in CHANGES:
        before = stored(pair, "Copied")
        while stored(pair, "Copied") <= before:
            assert all(query.isActive for query in queries), [q.exception() for q in queries]
        write(numbers(spark, end, end + STEP), pair.namesrv, "Streamed")
        end += STEP
        change(pair)
    while stored(pair, "Copied") < end:
        assert all(query.isActive for query in queries), [q.exception() for q in queries]
    for query in queries:
        query.stop()
    switch(pair)
    write(numbers(spark, end, end + STEP), pair.namesrv, "Streamed")
    end += STEP
    for sink in (copy, files):
        finished(sink)
    assert times(read(spark, pair.namesrv, "Copied", dropRepeats="true")) == {1: end}
    assert times(spark.read.parquet(str(tmp_path / "files" / "rows"))) == {1: end}
