"""What the tests on real Spark share: servers in processes of their own, reading and writing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

import pytest
from support.interop.apache_servers import free_broker_port

from pocketmq.client.blocking import PullConsumer
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.runtime.process import run
from pocketmq.spark.jobs.failures import reason_of
from pocketmq.spark.topics import queues_to_write

Rows = list[Any]


class Servers:
    """Processes of a cluster, started by the command."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def start(self, name: str, *arguments: str) -> dict[str, str]:
        """Starts a process; returns what its first line says, by name."""
        self.processes[name] = process = subprocess.Popen(
            [sys.executable, "-m", "pocketmq.cli.main", *arguments],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("up"), f"{name} did not start: {line!r}"
        return dict(word.split("=", 1) for word in line.split()[1:])

    def kill(self, name: str) -> None:
        """Ends a process as a crash would."""
        process = self.processes.pop(name)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.communicate()


class CrashingCluster:
    """A name server and brokers that can be killed and started again at the same addresses.

    Args:
        directory: for data and settings.
        brokers: their names.
    """

    def __init__(self, directory: Path, *brokers: str) -> None:
        self._directory, self._servers = directory, Servers(directory)
        self._ports = {name: free_broker_port() for name in brokers}
        settings = self._file("namesrv", listenPort=0, bindAddress="127.0.0.1")
        try:
            up = self._servers.start("namesrv", "namesrv", "-c", settings)
            self.namesrv = up["namesrv"]
            for name in brokers:
                self.start(name)
        except BaseException:
            self._servers.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._servers.stop()

    def start(self, name: str) -> None:
        """Starts a broker, perhaps again."""
        settings = self._file(
            name,
            brokerName=name,
            listenPort=self._ports[name],
            bindAddress="127.0.0.1",
            brokerIP1="127.0.0.1",
            namesrvAddr=self.namesrv,
            storePathRootDir=str(self._directory / name),
            flushDiskType="SYNC_FLUSH",
        )
        self._servers.start(name, "broker", "-c", settings)

    def kill(self, name: str) -> None:
        """Ends a broker as a crash would."""
        self._servers.kill(name)

    def _file(self, name: str, **settings: object) -> str:
        path = self._directory / f"{name}.yaml"
        path.write_text("".join(f"{key}: {json.dumps(v)}\n" for key, v in settings.items()))
        return str(path)


def write(rows: Any, namesrv: str, topic: str, **options: str) -> None:
    options = {"createTopicQueues": "4", **options}
    target = rows.write.format("pocketmq").options(namesrvAddr=namesrv, topic=topic, **options)
    target.mode("append").save()


def read(spark: Any, namesrv: str, topic: str, **options: str) -> Any:
    source = spark.read.format("pocketmq").options(namesrvAddr=namesrv, subscribe=topic, **options)
    return source.load()


def wait_until_readable(namesrv: str, topic: str, rows_count: int) -> None:
    """Apache's broker makes its queues' indexes a little after it acknowledged a message."""
    with PullConsumer("spark-tests", namesrv) as consumer:
        queues = consumer.queues(topic)
        while sum(map(consumer.max_offset, queues)) < rows_count:
            pass


def failure(rows: Any, namesrv: str, topic: str, **options: str) -> str:
    with pytest.raises(_refusals()) as caught:
        write(rows, namesrv, topic, **options)
    return reason_of(caught.value)


def _refusals() -> type[Exception]:
    from pyspark.errors import PySparkException

    refusals: type[Exception] = PySparkException
    return refusals


def created_topic(namesrv: str, topic: str, queues: int) -> None:
    """Creates a topic with so many queues on each broker."""

    async def create() -> None:
        async with ClientInstance(namesrv) as instance:
            await queues_to_write(instance, topic, queues)

    run(create())


def write_batches(namesrv: str, *batches: Any, **options: str) -> list[Any]:
    """Writes record batches by the source's own writer, each as a task, and commits.

    That is what Spark does, without Spark: for the many cases for which it would take too long.
    """
    writer = writer_of(namesrv, batches[0].schema, **options)
    messages = [writer.write(iter([batch])) for batch in batches]
    writer.commit(messages)
    return messages


def writer_of(namesrv: str, schema: Any, **options: str) -> Any:
    """The source's writer for rows of an Arrow schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    from pocketmq.spark.source import MessageSource

    source = MessageSource({"namesrvAddr": namesrv, **options})
    return source.writer(from_arrow_schema(schema), overwrite=False)


def read_rows(namesrv: str, topic: str, **options: str) -> list[dict[str, Any]]:
    """All rows of a topic, by the source's own reader; properties as a dictionary."""
    from pocketmq.spark.options import read_options
    from pocketmq.spark.reading.reader import MessageReader

    reader = MessageReader(read_options({"namesrvAddr": namesrv, "subscribe": topic, **options}))
    rows = [
        row
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ]
    for row in rows:
        row["properties"] = dict(row.get("properties") or ())
    return rows
