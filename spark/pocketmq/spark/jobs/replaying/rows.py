"""Makes messages that were read messages to be sent: filters, edits and addresses them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names.names import DLQ_PREFIX, RETRY_PREFIX
from pocketmq.spark.errors import OptionError, nearest
from pocketmq.spark.jobs.columns import as_body, as_text
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.messages import queue_column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REPLAY_ID, REPLAY_OF = "REPLAY_ID", "REPLAY_OF"
"""Properties of what a replay sent: which replay, and the place of the message in its source."""

DLQ_ORIGIN_TOPIC, DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_TOPIC", "DLQ_ORIGIN_MESSAGE_ID"
"""RocketMQ's brokers name in a dead letter the topic that it came from at last."""

ORIGINS = (props.RETRY_TOPIC, DLQ_ORIGIN_TOPIC, props.REAL_TOPIC)
"""Properties that name the topic to which a message was sent at first, but for retry topics."""

LEFT_OUT = (
    props.DELAY,
    *props.TIMER_PROPERTIES,
    props.TIMER_OUT_MS,
    props.TIMER_ENQUEUE_MS,
    props.TIMER_DEQUEUE_MS,
    props.TIMER_DELETE_KEY,
    props.REAL_TOPIC,
    props.REAL_QUEUE_ID,
    props.RECONSUME_TIME,
    props.MAX_RECONSUME_TIMES,
    props.TRANSACTION_PREPARED,
    props.TRANSACTION_CHECK_TIMES,
    props.CHECK_IMMUNITY_TIME_IN_SECONDS,
    props.POP_CK,
    DLQ_ORIGIN_TOPIC,
    DLQ_ORIGIN_MESSAGE_ID,
    REPLAY_ID,
    REPLAY_OF,
)
"""Properties that hold for the first send only: delays, counts of attempts, transactions."""

OF_RETRIES = (props.RETRY_TOPIC, props.ORIGIN_MESSAGE_ID)
"""Kept on the way to a group's retry topic, whose consumers go by them."""

TARGET = "topic"
EDITABLE = ("value", "keys", "tags", "shardingKey", "properties", TARGET)
NEEDED = ("topic", "brokerName", "queueId", "queueOffset", "value", "keys", "tags", "properties")
"""Columns without which messages cannot be replayed."""


def check_edits(columns: Iterable[str]) -> None:
    """Checks that only columns of a message are set.

    Raises:
        OptionError: another one is.
    """
    for name in columns:
        if name not in EDITABLE:
            raise OptionError(f"{name!r} cannot be set; {nearest(name, EDITABLE)}")


def check_columns(columns: Sequence[str], source: str) -> None:
    """Checks that rows have the columns of an export.

    Raises:
        OptionError: a column is missing.
    """
    missing = [name for name in NEEDED if name not in columns]
    if missing:
        raise OptionError(
            f"{source} has no column {', '.join(missing)}, so `pocketmq export` did not write it: "
            f"load other rows with `pocketmq ingest`"
        )


def rows_to_send(
    messages: DataFrame,
    replay_id: str,
    *,
    to_topic: str | None,
    where: str | None,
    columns: Mapping[str, str],
) -> DataFrame:
    """Makes the messages as they are sent.

    Columns: `topic` (where to; null if nothing tells it), `source` (where from), the mark `place`,
    and value, keys, tags, shardingKey and properties.

    Args:
        messages: as they were read.
        replay_id: the mark of the replay.
        to_topic: where all messages go; None for the topic that each came from.
        where: a condition in Spark's SQL over the columns of a read; None for all messages.
        columns: new values by column, in Spark's SQL over the columns of a read.

    Raises:
        JobError: an expression is wrong.
    """
    from pyspark.sql import functions as sf

    chosen = messages
    if where is not None:
        with job(f"the filter {where!r}"):
            chosen = messages.where(where)
    edited: dict[str, Column] = {}
    for name, text in columns.items():
        with job(f"the edit {name}={text!r}"):
            column = sf.expr(text)
            kind = chosen.select(column.alias(name)).schema[name].dataType
        if name == "value":
            column = as_body(column, kind)
        elif name != "properties":
            column = as_text(column, kind, f"the edit {name}={text!r}", f"{name} of a message")
        elif (given := kind.simpleString()) != "map<string,string>":
            raise OptionError(f"properties={text!r} gives a {given}, not a map<string,string>")
        edited[name] = column
    target = sf.lit(to_topic) if to_topic is not None else origin()
    place = sf.concat(queue_column(), sf.lit(":"), "queueOffset")
    sharding_key = sf.col("properties")[props.SHARDING_KEY]
    rows = chosen.select(
        edited.get(TARGET, target).alias("topic"),
        sf.col("topic").alias("source"),
        place.alias("place"),
        edited.get("value", sf.col("value")).alias("value"),
        edited.get("keys", sf.col("keys")).alias("keys"),
        edited.get("tags", sf.col("tags")).alias("tags"),
        sf.nullif(edited.get("shardingKey", sharding_key), sf.lit("")).alias("shardingKey"),
        edited.get("properties", sf.col("properties")).alias("properties"),
    )
    return rows.withColumn("properties", _properties(replay_id))


def origin() -> Column:
    """The topic to which a message was sent at first; null if only %DLQ% or %RETRY% is known."""
    from pyspark.sql import functions as sf

    def own(name: Column) -> Column:
        special = name.startswith(RETRY_PREFIX) | name.startswith(DLQ_PREFIX) | (name == "")
        return sf.when(~special, name)

    named = (own(sf.col("properties")[name]) for name in ORIGINS)
    return sf.coalesce(*named, own(sf.col("topic")))


def origin_of(topic: str, properties: Mapping[str, str]) -> str | None:
    """Returns the topic to which one message was sent at first; see `origin`."""
    named = (*(properties.get(name) for name in ORIGINS), topic)
    return next((n for n in named if n and not n.startswith((RETRY_PREFIX, DLQ_PREFIX))), None)


def _properties(replay_id: str) -> Column:
    """The properties of a message but keys, tags and sharding key, and the marks of the replay."""
    from pyspark.sql import functions as sf

    own = [*LEFT_OUT, props.KEYS, props.TAGS, props.SHARDING_KEY]
    to_retries = sf.coalesce(sf.col("topic").startswith(RETRY_PREFIX), sf.lit(False))
    kept = sf.map_filter(
        sf.coalesce(sf.col("properties"), sf.create_map().cast("map<string,string>")),
        lambda name, _: ~name.isin(own) & (to_retries | ~name.isin(list(OF_RETRIES))),
    )
    marks = sf.create_map(sf.lit(REPLAY_ID), sf.lit(replay_id), sf.lit(REPLAY_OF), sf.col("place"))
    return sf.map_concat(kept, marks)
