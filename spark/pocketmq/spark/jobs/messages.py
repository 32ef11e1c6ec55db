"""Reads ranges of queues with the data source."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.jobs.options import refuse_own
from pocketmq.spark.options import FORMAT
from pocketmq.spark.queue_tables import queue_table
from pocketmq.spark.reading.offsets import EARLIEST, Range

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
    spark: SparkSession,
    settings: Mapping[str, str],
    ranges: Sequence[Range],
    queues: Iterable[MessageQueue],
) -> DataFrame:
    """Reads the messages of ranges, those of a queue in one task and in their order.

    Args:
        spark: the session.
        settings: options of the data source without topics and offsets.
        ranges: one of a queue at the most.
        queues: all of the topics.
    """
    found = load(spark, {**settings, **offset_options(ranges, queues)})
    # A queue that is new since the ranges were settled would be read as a whole.
    return found.where(queue_column().isin(sorted(str(r.queue) for r in ranges)))


def load(spark: SparkSession, settings: Mapping[str, str]) -> DataFrame:
    """Reads messages with the data source."""
    return spark.read.format(FORMAT).options(**settings).load()


def offset_options(ranges: Sequence[Range], queues: Iterable[MessageQueue]) -> dict[str, str]:
    """Makes the options of a read that gives some ranges, and of other queues nothing.

    Args:
        ranges: one of a queue at the most.
        queues: all of the topics.
    """
    topics = {r.queue.topic for r in ranges}
    bounds = {q: (EARLIEST, EARLIEST) for q in queues if q.topic in topics}
    bounds |= {r.queue: (r.start, r.end) for r in ranges}
    starts, ends = (queue_table((q, pair[i]) for q, pair in bounds.items()) for i in (0, 1))
    return {
        "subscribe": ",".join(sorted(topics)),
        "startingOffsets": json.dumps(starts),
        "endingOffsets": json.dumps(ends),
    }


def queue_column() -> Column:
    """The queue of a message in one word, as `MessageQueue` says it."""
    from pyspark.sql import functions as sf

    return sf.concat("topic", sf.lit("@"), "brokerName", sf.lit(":"), "queueId")
