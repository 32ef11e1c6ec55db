"""The sources of a replay: a topic, or files of an export."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.process import run
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.ledger import SCHEMA_SETTING, LedgerFile
from pocketmq.spark.jobs.landing import selection
from pocketmq.spark.jobs.landing.selection import QueueEnds, TopicBounds
from pocketmq.spark.jobs.messages import messages_of, read_settings
from pocketmq.spark.jobs.replaying.rows import check_columns, origin_of
from pocketmq.spark.options import ReadOptions, read_options
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.pulling import pulled_parts
from pocketmq.spark.rows.decoding import decode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class ReplaySource(ABC):
    """Gives the messages of a replay by their offsets.

    Args:
        ranges: what there is to be replayed.
    """

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges

    @abstractmethod
    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """Reads the messages of ranges, those of a queue in one task and in their order."""

    def is_in_the_target_cluster(self, to_namesrv: str | None) -> bool:
        """Whether messages are in the cluster that they are sent to; files never are."""
        return False

    def deleted_of(self, ranges: Sequence[Range]) -> list[Range]:
        """Returns what retention has deleted of these ranges; of files nothing."""
        return []


class TopicSource(ReplaySource):
    """The messages of a topic.

    Args:
        spark: the session.
        found: what the topic holds.
    """

    def __init__(self, spark: SparkSession, found: TopicMessages) -> None:
        super().__init__(found.ranges)
        self._spark, self._settings, self._ends = spark, found.settings, found.ends

    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """Reads the messages of ranges, those of a queue in one task and in their order."""
        return messages_of(self._spark, self._settings, ranges)

    def is_in_the_target_cluster(self, to_namesrv: str | None) -> bool:
        """Whether messages are in the cluster that they are sent to."""
        return to_namesrv is None or to_namesrv == self._settings["namesrvAddr"]

    def deleted_of(self, ranges: Sequence[Range]) -> list[Range]:
        """Returns what retention has deleted of these ranges."""
        return selection.deleted_of(ranges, self._ends)


class FileSource(ReplaySource):
    """The files that an export wrote.

    Args:
        rows: of the files.
        ranges: what there is to be replayed.
    """

    def __init__(self, rows: DataFrame, ranges: Sequence[Range]) -> None:
        super().__init__(ranges)
        self._rows = rows

    def messages(self, ranges: Sequence[Range]) -> DataFrame:
        """Reads the messages of ranges, those of a queue in one task and in their order."""
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


class TopicMessages(NamedTuple):
    """What topics hold that is to be replayed.

    Attributes:
        read: options of a read, without offsets.
        settings: the same by their names, without topics.
        ranges: what there is to be replayed.
        ends: the least and the next offset of each queue.
    """

    read: ReadOptions
    settings: dict[str, str]
    ranges: Sequence[Range]
    ends: QueueEnds

    def first_that_stays(self, topic: str | None) -> Range | None:
        """Finds messages that would be sent to the topic where they are.

        It looks at one message of each topic: whoever has to wait for Spark to be told so waits
        in vain.

        Args:
            topic: where all messages go; None for the topic that each came from.

        Returns:
            The range that begins with such a message; None if there is none.
        """
        first_of = {r.queue.topic: r for r in reversed(self.ranges)}
        if topic is not None:
            return first_of.get(topic)
        plain = [r for name, r in first_of.items() if origin_of(name, {}) is not None]
        return next((r for r in plain if self._origin(r) == r.queue.topic), None)

    def _origin(self, wanted: Range) -> str | None:
        one = wanted._replace(end=wanted.start + 1)
        options = msgspec.structs.replace(self.read, fail_on_data_loss=False)
        for part in pulled_parts(options, one):
            rows = decode_records(
                part, one.queue.broker_name, with_properties=True, offset_end=one.end
            )
            for properties in rows["properties"].to_pylist():
                return origin_of(one.queue.topic, dict(properties))
        return None


def topic_messages(
    source: str,
    namesrv: str | None,
    reader_options: Mapping[str, str],
    since_ms: int | None,
    until_ms: int | None,
) -> TopicMessages:
    """Finds out what a topic holds that is to be replayed, without Spark.

    Raises:
        OptionError: an option does not fit.
        MissingTopicError: the topic does not exist.
        JobError: there are no messages.
    """
    settings = read_settings(source, namesrv, reader_options)
    read = read_options(settings)

    async def asked() -> TopicBounds:
        async with read.client() as instance:
            return await selection.topic_bounds(instance, read.topics, since_ms, until_ms)

    bounds = run(asked())
    ranges = selection.selected_ranges(bounds, "earliest", "latest")
    if not ranges:
        raise _nothing(source)
    settings = {**reader_options, "namesrvAddr": read.namesrv_addr}
    return TopicMessages(read, settings, ranges, bounds.ends)


def _nothing(source: str) -> JobError:
    return JobError(f"replay of {source}", "there are no messages, or none of that time")


def is_directory(source: str) -> bool:
    """Whether a source is meant as a path: a topic's name has no slash."""
    return "/" in source or "://" in source or Path(source).exists()


def open_files(
    spark: SparkSession,
    source: str,
    since_ms: int | None,
    until_ms: int | None,
    *,
    needs_bodies: bool = True,
) -> FileSource:
    """Opens the files of an export, and finds out what there is to be replayed.

    Args:
        spark: the session.
        source: the directory.
        since_ms, until_ms: see `ReplayOptions`.
        needs_bodies: whether the bodies are those of the files.

    Raises:
        OptionError: the directory is none of an export, or has no bodies.
        JobError: there are no messages, or the files cannot be read.
    """
    from pyspark.sql import functions as sf

    directory = Directory(spark, source)
    if not directory.exists():
        raise OptionError(f"there is no directory {source}")
    with job(f"reading {source}"):
        rows = spark.read.parquet(source)
        check_columns(rows.columns, source)
        if needs_bodies:
            _check_bodies(directory, source, rows.schema["value"].dataType.simpleString())
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
        raise _nothing(source)
    return FileSource(rows, ranges)


def _check_bodies(directory: Directory, source: str, kind: str) -> None:
    """Checks that an export has bodies as they were sent.

    A part of an export has no ledger, and a schema may be one of text: hence two ways to know.

    Raises:
        OptionError: they were decoded by a schema.
    """
    schema = LedgerFile(directory).settings().get(SCHEMA_SETTING)
    if schema is None and kind in ("binary", "string"):
        return
    how = f"a schema ({schema})" if schema else "a schema"
    raise OptionError(
        f"{source} was exported by {how}: its values are decoded (value is a {kind}), and a replay "
        f"sends bodies as they were. Export once more without a schema and replay that; or encode "
        f"the values again, with `pocketmq ingest {source} --format parquet --value value --schema "
        f"…`; or say what the bodies are to be, as with --set 'value=to_json(value)'"
    )
