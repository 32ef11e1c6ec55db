"""Spark writing and reading, beside Spark's Kafka connector and the floors of any Python source.

    python bench/spark_kafka.py [--reference DIR] [--kafka DIR] [--rows 2000000] [--rounds 3]

Starts a cluster of its own (one broker), writes rows of 100 bytes with a key into 16 queues by two
cores, and reads them again. With the reference folder's `spark-kafka` Kafka runs beside it, and
all cases take turns, round by round; `--kafka` is where its jars are kept and its data lies while
it runs. Without that folder only this project and the floors are measured. Each run's rows are
counted. Before them a first job writes and reads 1,000 rows, and the Python processes are counted
that Spark has started for it. Prints a table, then one line of JSON: medians of rows/s and of CPU
seconds a million rows, and what share of the machine others took meanwhile at the most.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from own_cluster import Cluster, cluster, cpu_s
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from pocketmq.spark import local_session
from pocketmq.spark.fork_server import server as fork_server
from pocketmq.spark.jobs.failures import reason_of
from pocketmq.spark.jobs.progress import TopicGrowth
from pocketmq.spark.source import MessageSource

ROOT = Path(__file__).resolve().parent.parent
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
QUEUES, CORES = 16, 2
BATCH_ROWS = 10_000
"""Spark's own default for an Arrow batch."""

REST_SHARE, REST_STEP_S, REST_S_MAX = 0.1, 1.0, 60.0
"""Of a core, all brokers together, before the next case begins; how often that is looked at."""

PROVIDED_BYTES = 1 << 30
"""Twice what 2 million rows take in a broker's files."""

FIRST_JOB_ROWS = 1_000

TRIGGER_ROWS = 500_000
"""Of one micro-batch."""

KAFKA_TUNED = {"kafka.fetch.max.wait.ms": "10", "kafka.max.poll.records": "10000"}
"""As it comes, the connector waits most of a read."""

FLOOR_SCHEMA = "key binary, value binary, topic string, queue int, offset bigint, time timestamp"


class Run(NamedTuple):
    """What one run took."""

    rows_per_s: float
    broker_cpu_s: float
    spark_cpu_s: float
    others: float


Case = Callable[[int], Callable[[], object]]
"""Prepares a run on so many rows, and gives what is to be timed; that gives what is to be checked
afterwards, or None."""


# -- the floors -----------------------------------------------------------------------------------


class Counted(WriterCommitMessage):
    """How many rows a task has seen."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


class FloorWriter(DataSourceArrowWriter):
    """A sink that only counts."""

    def __init__(self, rows: int) -> None:
        self._wanted = rows

    def write(self, iterator: Iterator[Any]) -> Counted:
        return Counted(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[Any]) -> None:
        expect(sum(message.rows for message in messages), self._wanted)


class FloorReader(DataSourceReader):
    """A source of ready-made batches."""

    def __init__(self, rows: int, size: int) -> None:
        self._rows, self._size = rows, size

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(i) for i in range(QUEUES)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        rows = self._rows * (partition.value + 1) // QUEUES - self._rows * partition.value // QUEUES
        count = BATCH_ROWS
        values = pa.array([os.urandom(self._size) for _ in range(count)], pa.binary())
        moment = pa.array([time.time_ns() // 1000] * count, pa.timestamp("us", "UTC"))
        batch = pa.RecordBatch.from_arrays(
            [
                pa.array([b"%d" % (k % 1000) for k in range(count)], pa.binary()), values,
                pa.array(["topic"] * count), pa.array([partition.value] * count, pa.int32()),
                pa.array(range(count), pa.int64()), moment,
            ],
            ["key", "value", "topic", "queue", "offset", "time"],
        )  # fmt: skip
        for at in range(0, rows, count):
            yield batch.slice(0, min(count, rows - at))


class Floor(DataSource):
    """The least that a Python data source has to do."""

    @classmethod
    def name(cls) -> str:
        return "floor"

    def schema(self) -> str:
        return FLOOR_SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return FloorReader(int(self.options["rows"]), int(self.options["bytes"]))

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return FloorWriter(int(self.options["rows"]))


# -- the cases ------------------------------------------------------------------------------------


def expect(got: int, rows: int) -> None:
    if got != rows:
        raise SystemExit(f"{got:,} rows, not {rows:,}")


def to_nothing(frame: Any) -> None:
    frame.write.format("noop").mode("append").save()


def streamed(source: Any) -> int:
    """Reads a stream to its present end; returns how many rows came."""
    with tempfile.TemporaryDirectory(prefix="pocketmq-bench-") as checkpoint:
        query = (
            source.option("maxOffsetsPerTrigger", TRIGGER_ROWS).load().writeStream.format("noop")
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )  # fmt: skip
        query.awaitTermination()
        return sum(progress["numInputRows"] for progress in query.recentProgress)


class Cases:
    """What is measured.

    Args:
        spark: the session.
        given: the command line.
    """

    def __init__(self, spark: Any, given: argparse.Namespace) -> None:
        self._spark, self._size = spark, given.bytes

    def rows(self, rows: int) -> Any:
        words = ", ".join(f"cast(xxhash64(id, {i}) as binary)" for i in range(-(-self._size // 8)))
        return self._spark.range(0, rows, 1, 4 * CORES).selectExpr(
            "cast(id % 1000 as string) as key",
            f"substring(concat({words}), 1, {self._size}) as value",
        )

    def floors(self) -> dict[str, Case]:
        def write(rows: int) -> Callable[[], object]:
            writer = self.rows(rows).write.format("floor").option("rows", rows).mode("append")
            return writer.save  # type: ignore[no-any-return]

        def read(rows: int) -> Callable[[], object]:
            source = self._spark.read.format("floor").options(rows=rows, bytes=self._size)
            return lambda: to_nothing(source.load())

        return {"write, floor": write, "read, floor": read}

    def own(self, namesrv: str) -> dict[str, Case]:
        topics: dict[int, str] = {}

        def write(rows: int) -> Callable[[], object]:
            topic = topics[rows] = f"Bench{time.time_ns()}"
            options = {"topic": topic, "namesrvAddr": namesrv, "createTopicQueues": str(QUEUES)}
            writer = self.rows(rows).write.format("pocketmq").options(**options).mode("append")

            def run() -> object:
                writer.save()
                return lambda: expect(TopicGrowth(namesrv, topic).stored(), rows)

            return run

        def source(reader: Any, rows: int, properties: str) -> Any:
            options = {"namesrvAddr": namesrv, "includeProperties": properties}
            return reader.format("pocketmq").option("subscribe", topics[rows]).options(**options)

        def read(properties: str) -> Case:
            def prepare(rows: int) -> Callable[[], object]:
                frame = source(self._spark.read, rows, properties).load()

                def run() -> object:
                    to_nothing(frame)
                    return lambda: expect(frame.count(), rows)

                return run

            return prepare

        def stream(rows: int) -> Callable[[], object]:
            reader = source(self._spark.readStream, rows, "false")
            return lambda: expect(streamed(reader.option("startingOffsets", "earliest")), rows)

        cases = {"write": write, "read": read("false"), "read, properties": read("true")}
        return cases | ({"stream": stream} if "streamReader" in vars(MessageSource) else {})

    def kafka(self, broker: KafkaTopics, address: str) -> dict[str, Case]:
        topics: dict[int, str] = {}

        def source(io: Any, **options: str) -> Any:
            return io.format("kafka").option("kafka.bootstrap.servers", address).options(**options)

        def write(rows: int) -> Callable[[], object]:
            topic = topics[rows] = broker.create()
            options = {"topic": topic, "kafka.acks": "all"}
            writer = source(self.rows(rows).write, **options).mode("append")

            def run() -> object:
                writer.save()
                return lambda: expect(broker.rows(topic), rows)

            return run

        def read(**options: str) -> Case:
            def prepare(rows: int) -> Callable[[], object]:
                frame = source(self._spark.read, subscribe=topics[rows], **options).load()
                return lambda: to_nothing(frame)

            return prepare

        def stream(rows: int) -> Callable[[], object]:
            reader = source(
                self._spark.readStream, subscribe=topics[rows], startingOffsets="earliest"
            )
            return lambda: expect(streamed(reader), rows)

        return {
            "write, Kafka": write, "read, Kafka": read(), "read, Kafka tuned": read(**KAFKA_TUNED),
            "stream, Kafka": stream,
        }  # fmt: skip


# -- measuring ------------------------------------------------------------------------------------


def first_job(write: Case, read: Case) -> dict[str, float]:
    """Writes and reads a few rows in a session that has run nothing yet."""
    before, began = python_workers(), time.perf_counter()
    write(FIRST_JOB_ROWS)()
    read(FIRST_JOB_ROWS)()
    seconds = round(time.perf_counter() - began, 2)
    found = {"seconds": seconds, "processes": python_workers() - before}
    print(f"first job: {seconds} s, {found['processes']} Python processes", flush=True)
    return found


def python_workers() -> int:
    """How many Python processes of Spark run below this one, launchers and forks included."""
    parents, workers = {}, []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parents[int(folder.name)] = parent_of(folder)
                command = (folder / "cmdline").read_bytes()
                if b"\0-m\0pyspark." in command or fork_server.__name__.encode() in command:
                    workers.append(int(folder.name))
            except OSError:
                continue
    return sum(is_below(pid, parents) for pid in workers)


def parent_of(folder: Path) -> int:
    return int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])


def is_below(pid: int, parents: dict[int, int]) -> bool:
    """Whether a process is this one or one below it."""
    while pid and pid != os.getpid():
        pid = parents.get(pid, 0)
    return pid != 0


def cpu_seconds(broker_pid: int, idle_pids: Collection[int]) -> tuple[float, float, float, float]:
    """CPU seconds so far: of a broker, other brokers, this process and all below it, all."""
    parents, used = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:15])) / TICKS_PER_S

    busy = list(map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]))
    total = (sum(busy) - busy[3] - busy[4]) / TICKS_PER_S  # without idle and waiting for disks
    tree = sum(t for p, t in used.items() if is_below(p, parents))  # with all brokers
    return cpu_s(broker_pid), sum(map(cpu_s, idle_pids)), tree, total


def rest(pids: Collection[int]) -> None:
    """Waits until the brokers rest: what one does after its case must not slow the next one down.

    This project's broker, for one, enters keys in its index when a bulk write is over.
    """
    until = time.monotonic() + REST_S_MAX
    used = sum(map(cpu_s, pids))
    while time.monotonic() < until:
        time.sleep(REST_STEP_S)
        before, used = used, sum(map(cpu_s, pids))
        if used - before <= REST_STEP_S * REST_SHARE:
            return
    print(f"the brokers did not come to rest within {REST_S_MAX} s", file=sys.stderr)


def provide_pages() -> None:
    """Has the system own as much free memory as a case touches.

    The host of a virtual machine may take free pages back; to get one again then costs several
    times what the copy of a message into it does, whichever broker makes it.
    """
    block = b"x" * PROVIDED_BYTES
    del block


def measured(case: Case, rows: int, broker_pid: int, idle_pids: Collection[int]) -> Run:
    run = case(rows)
    rest({broker_pid, *idle_pids})
    provide_pages()
    before, began = cpu_seconds(broker_pid, idle_pids), time.perf_counter()
    check = run()
    took = time.perf_counter() - began
    after = cpu_seconds(broker_pid, idle_pids)
    broker, idle, tree, total = (b - a for a, b in zip(before, after, strict=True))
    if callable(check):
        check()
    millions = rows / 1e6
    others = max(0.0, total - tree) / took / (os.cpu_count() or 1)
    return Run(rows / took, broker / millions, (tree - broker - idle) / millions, others)


def free_port_pair() -> int:
    """A port that is free and has a free one behind it: Kafka's controller takes that."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            try:
                other.bind(("127.0.0.1", port + 1))
            except OSError:
                continue
            return port


@contextmanager
def kafka(reference: Path, scratch: Path) -> Iterator[tuple[str, int]]:
    """Kafka as the reference folder runs it; its address and process id."""
    port = free_port_pair()
    process = subprocess.Popen(
        [reference / "kafka.sh", scratch, str(port)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        words = process.stdout.readline().split()
        if words[:1] != ["up"]:
            raise SystemExit("Kafka did not start")
        yield f"127.0.0.1:{port}", int(words[2])
    finally:
        process.terminate()
        process.wait()


class KafkaTopics:
    """Makes topics in Kafka and counts what is in them, by the client that the connector brings.

    Args:
        spark: a session with the connector's jars.
        address: of the broker.
    """

    def __init__(self, spark: Any, address: str) -> None:
        self._java = spark._jvm.java.util
        self._kafka = spark._jvm.org.apache.kafka
        settings = self._java.HashMap()
        settings.put("bootstrap.servers", address)
        self._admin = self._kafka.clients.admin.Admin.create(settings)

    def create(self) -> str:
        name = f"bench-{time.time_ns()}"
        optional = self._java.Optional
        topic = self._kafka.clients.admin.NewTopic(name, optional.of(QUEUES), optional.empty())
        self._admin.createTopics(self._java.List.of(topic)).all().get()
        return name

    def rows(self, topic: str) -> int:
        latest = self._kafka.clients.admin.OffsetSpec.latest()
        wanted = self._java.HashMap()
        for number in range(QUEUES):
            wanted.put(self._kafka.common.TopicPartition(topic, number), latest)
        ends = self._admin.listOffsets(wanted).all().get()
        return sum(end.offset() for end in ends.values())


def rounds(
    cases: dict[str, tuple[Case, int]], given: argparse.Namespace
) -> dict[str, dict[str, float]]:
    runs: dict[str, list[Run]] = {name: [] for name in cases}
    pids = {pid for _, pid in cases.values()}
    for name, (case, pid) in cases.items():
        measured(case, max(1, given.rows // 20), pid, pids - {pid})  # to warm up
        print(f"warm: {name}", file=sys.stderr)
    for number in range(given.rounds):
        for name, (case, pid) in cases.items():
            try:
                run = measured(case, given.rows, pid, pids - {pid})
            except Py4JError as e:
                if "Kafka" not in name:
                    raise
                # Its producer gives records up that the disk has let wait for two minutes.
                print(f"{number + 1} {name}: failed, not counted: {reason_of(e)}", flush=True)
                continue
            runs[name].append(run)
            print(f"{number + 1} {name:20} {run.rows_per_s:11,.0f} rows/s, CPU s a million rows: "
                  f"broker {run.broker_cpu_s:.2f}, Spark {run.spark_cpu_s:.2f}; others "
                  f"{run.others:.0%}", flush=True)  # fmt: skip
    return {
        name: {
            "rows_per_s": round(statistics.median(r.rows_per_s for r in found)),
            "slowest": round(min(r.rows_per_s for r in found)),
            "fastest": round(max(r.rows_per_s for r in found)),
            "broker_cpu_s": round(statistics.median(r.broker_cpu_s for r in found), 2),
            "spark_cpu_s": round(statistics.median(r.spark_cpu_s for r in found), 2),
            "others": round(max(r.others for r in found), 2),
        }
        for name, found in runs.items()
        if found
    }


def session(jars: str) -> Any:
    settings = {"spark.sql.ansi.enabled": "false"}  # numbers are cast to binary here
    if jars:
        settings["spark.jars"] = jars
    spark = local_session(cores=CORES, driver_memory="2g", settings=settings)
    spark.dataSource.register(Floor)
    return spark


def compared(own: Cluster, reference: Path | None, given: argparse.Namespace) -> dict[str, Any]:
    if reference is None:
        spark = session("")
        cases = Cases(spark, given)
        every = {n: (c, own.pid) for n, c in (cases.own(own.namesrv) | cases.floors()).items()}
        try:
            begun = first_job(every["write"][0], every["read"][0])
            return rounds(every, given) | {"first job": begun}
        finally:
            spark.stop()
    with kafka(reference, given.kafka) as (address, pid):
        spark = session(",".join(map(str, sorted((given.kafka / "spark-jars").glob("*.jar")))))
        try:
            cases = Cases(spark, given)
            theirs = cases.kafka(KafkaTopics(spark, address), address)
            ours = cases.own(own.namesrv)
            begun = first_job(ours["write"], ours["read"])
            every = {}
            for name, case in ours.items():
                every[name] = (case, own.pid)
                every |= {n: (c, pid) for n, c in theirs.items() if n.split(",")[0] == name}
            every |= {n: (c, own.pid) for n, c in cases.floors().items()}
            return rounds(every, given) | {"first job": begun}
        finally:
            spark.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reference", type=Path, default=ROOT.parent / "shared" / "reference")
    parser.add_argument("--kafka", type=Path, default=Path(tempfile.gettempdir(), "spark-kafka"))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    reference: Path | None = given.reference.resolve() / "spark-kafka"
    assert reference is not None
    if not reference.is_dir():
        print(f"{reference} is not there: Kafka is left out", file=sys.stderr)
        reference = None
    with cluster() as own:
        result = compared(own, reference, given)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
