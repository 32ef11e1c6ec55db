"""Reads ranges of queues with the data source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pocketmq.runtime.process import run
from pocketmq.spark.jobs.options import refuse_own
from pocketmq.spark.options import FORMAT, ReadOptions, read_options
from pocketmq.spark.reading.offsets import Range

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from pocketmq.spark.reading.reader import RangePartition

_OWN_OPTIONS = {
    *("startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"),
    *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
    *("subscribe", "topic", "subscribepattern", "assign"),
}


def read_settings(topic: str, namesrv: str | None, further: Mapping[str, str]) -> dict[str, str]:
    """Makes the options of the data source that name topics; offsets are the job's own business.

    Raises:
        OptionError: offsets or topics are among the further options.
    """
    refuse_own(further, _OWN_OPTIONS)
    settings = {"subscribe": topic, **further}
    if namesrv is not None:
        settings["namesrvAddr"] = namesrv
    return settings


def messages_of(
    spark: SparkSession, settings: Mapping[str, str], ranges: Sequence[Range]
) -> DataFrame:
    """Reads the messages of ranges, those of a queue in one task and in their order.

    The tasks call the data source's own reader. To read by `load`, Spark would start two more
    Python processes, each with all its imports, to be told what is known here.

    Args:
        spark: the session.
        settings: options of the data source without topics and offsets.
        ranges: one of a queue at the most.

    Raises:
        OperatingError: repeats are to be dropped, and the commits cannot be read.
    """
    from pocketmq.spark.reading.reader import MessageReader
    from pocketmq.spark.source import schema_of

    topics = ",".join(sorted({r.queue.topic for r in ranges}))
    options = read_options({**settings, "subscribe": topics})
    tasks = run(partitions(options, ranges))

    def read(batches: Iterator[Any]) -> Iterator[Any]:
        reader = MessageReader(options)
        for batch in batches:
            for number in batch["id"].to_pylist():
                yield from reader.read(tasks[number])

    count = len(tasks)
    return spark.range(0, count, 1, max(1, count)).mapInArrow(read, schema_of(options))


async def partitions(options: ReadOptions, ranges: Sequence[Range]) -> list[RangePartition]:
    """Divides ranges into tasks.

    Raises:
        OperatingError: repeats are to be dropped, and the commits cannot be read.
    """
    from pocketmq.spark.reading.reader import partitions_of

    async with options.client() as instance:
        return await partitions_of(instance, options, ranges)


def load(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
    """Reads messages with the data source."""
    return spark.read.format(FORMAT).options(**settings).load()


def queue_column() -> Column:
    """The queue of a message in one word, as `MessageQueue` says it."""
    from pyspark.sql import functions as sf

    return sf.concat("topic", sf.lit("@"), "brokerName", sf.lit(":"), "queueId")
