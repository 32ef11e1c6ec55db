"""Where a replay takes messages from: a topic, or files of an export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.process import run
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.landing import wanted
from pocketmq.spark.jobs.landing.land import read_settings
from pocketmq.spark.jobs.landing.landing import FORMAT, place_column, place_name
from pocketmq.spark.jobs.landing.wanted import Look
from pocketmq.spark.jobs.replaying.rows import check_columns
from pocketmq.spark.jobs.spans import offset_options
from pocketmq.spark.options import read_options
from pocketmq.spark.reading.offsets import Range

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ReplaySource(Protocol):
    """Messages by their places."""

    @property
    def ranges(self) -> Sequence[Range]:
        """What there is to be replayed."""

    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, those of a queue in one task and in their order."""

    def is_in_the_target_cluster(self, to_namesrv: str | None) -> bool:
        """Whether messages are in the cluster that they are sent to."""

    def gone(self, ranges: Sequence[Range]) -> list[Range]:
        """What of these ranges is not there any more."""


class TopicSource:
    """A topic's messages.

    Args:
        spark: the session.
        settings: options of a read, without offsets.
        ranges: what there is to be replayed.
        seen: what the topic holds.
    """

    def __init__(
        self, spark: SparkSession, settings: dict[str, str], ranges: Sequence[Range], seen: Look
    ) -> None:
        self._spark, self._settings, self._seen = spark, settings, seen
        self.ranges = ranges

    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, those of a queue in one task and in their order."""
        settings = {**self._settings, **offset_options(ranges, self._seen.ends)}
        found = self._spark.read.format(FORMAT).options(**settings).load()
        return found.where(place_column().isin([place_name(r.queue) for r in ranges]))

    def is_in_the_target_cluster(self, to_namesrv: str | None) -> bool:
        """Whether messages are in the cluster that they are sent to."""
        return to_namesrv is None or to_namesrv == self._settings["namesrvAddr"]

    def gone(self, ranges: Sequence[Range]) -> list[Range]:
        """What of these ranges retention has deleted."""
        return wanted.gone(ranges, self._seen.ends)


class FileSource:
    """What an export wrote.

    Args:
        rows: of its files.
        ranges: what there is to be replayed.
    """

    def __init__(self, rows: DataFrame, ranges: Sequence[Range]) -> None:
        self._rows = rows
        self.ranges = ranges

    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """The messages of ranges, those of a queue in one task and in their order."""
        from pyspark.sql import functions as sf

        conditions = [
            (sf.col("topic") == r.queue.topic)
            & (sf.col("brokerName") == r.queue.broker_name)
            & (sf.col("queueId") == r.queue.queue_id)
            & (sf.col("queueOffset") >= r.start)
            & (sf.col("queueOffset") < r.end)
            for r in ranges
        ]
        chosen = self._rows.where(reduce(lambda one, other: one | other, conditions))
        return chosen.repartition("topic", "brokerName", "queueId").sortWithinPartitions(
            "topic", "brokerName", "queueId", "queueOffset"
        )

    def is_in_the_target_cluster(self, to_namesrv: str | None) -> bool:
        """Never: files are beside their cluster."""
        return False

    def gone(self, ranges: Sequence[Range]) -> list[Range]:
        """Nothing: files are not deleted by pieces."""
        return []


def open_source(
    spark: SparkSession,
    source: str,
    namesrv: str | None,
    reader_options: Mapping[str, str],
    since_ms: int | None,
    until_ms: int | None,
) -> ReplaySource:
    """Finds out what there is to be replayed.

    Raises:
        OptionError: the source is neither, or no export.
        MissingTopicError: the topic does not exist.
        JobError: there are no messages, or the files cannot be read.
    """
    if is_directory(source):
        if reader_options:
            names = ", ".join(sorted(reader_options))
            raise OptionError(f"{names}: options of a topic's read, but {source} is a directory")
        return _files(spark, source, since_ms, until_ms)
    settings = read_settings(source, namesrv, reader_options)
    read = read_options(settings)
    settings = {**reader_options, "namesrvAddr": read.namesrv_addr}

    async def asked() -> Look:
        async with ClientInstance(read.namesrv_addr) as instance:
            return await wanted.look(instance, read.topics, lambda _: since_ms, lambda _: until_ms)

    seen = run(asked())
    ranges = wanted.chosen(seen, "earliest", "latest")
    if not ranges:
        raise JobError(f"replay of {source}", "there are no messages, or none of that time")
    return TopicSource(spark, settings, ranges, seen)


def is_directory(source: str) -> bool:
    """Whether a source is meant as a path: a topic's name has no slash."""
    return "/" in source or "://" in source or Path(source).exists()


def _files(
    spark: SparkSession, source: str, since_ms: int | None, until_ms: int | None
) -> FileSource:
    from pyspark.sql import functions as sf

    if not Directory(spark, source).exists():
        raise OptionError(f"there is no directory {source}")
    with job(f"reading {source}"):
        rows = spark.read.parquet(source)
        check_columns(rows.columns, source)
        stored = sf.unix_millis("storeTimestamp")
        if since_ms is not None:
            rows = rows.where(stored >= since_ms)
        if until_ms is not None:
            rows = rows.where(stored < until_ms)
        ends = (sf.min("queueOffset").alias("first"), sf.max("queueOffset").alias("last"))
        found = rows.groupBy("topic", "brokerName", "queueId").agg(*ends).collect()
    ranges = [
        Range(MessageQueue(row.topic, row.brokerName, row.queueId), row.first, row.last + 1)
        for row in found
    ]
    if not ranges:
        raise JobError(f"replay of {source}", "there are no messages, or none of that time")
    return FileSource(rows, ranges)
