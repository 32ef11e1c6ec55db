"""Which columns a write takes, and how they become Arrow columns of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pocketmq.spark.errors import RowError, SchemaError, nearest
from pocketmq.spark.rows.encoding import Columns
from pocketmq.spark.rows.plain_messages import Delays

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

VALUE = "value"
KEYS = "keys"
TAGS = "tags"
SHARDING_KEY = "shardingKey"
PROPERTIES = "properties"
QUEUE_ID = "queueId"
BROKER_NAME = "brokerName"
TOPIC = "topic"
DELAY_LEVEL = "delayLevel"
DELIVER_AT = "deliverAt"

ALIASES = {"body": VALUE, "key": KEYS, "tag": TAGS}
"""Other names of columns: those of Kafka's and of the older RocketMQ source."""

COLUMN_TYPES = {
    VALUE: ("binary", "string"),
    KEYS: ("string",),
    TAGS: ("string",),
    SHARDING_KEY: ("string",),
    PROPERTIES: ("map<string,string>",),
    QUEUE_ID: ("int", "bigint"),
    BROKER_NAME: ("string",),
    TOPIC: ("string",),
    DELAY_LEVEL: ("int", "bigint"),
    DELIVER_AT: ("timestamp", "bigint"),
}


def check_schema(schema: StructType) -> None:
    """Makes sure that rows of this schema can be written.

    Raises:
        SchemaError: a column is missing, unknown, given twice, or of the wrong type.
    """
    seen: dict[str, str] = {}
    for field in schema.fields:
        name = ALIASES.get(field.name, field.name)
        if name not in COLUMN_TYPES:
            raise SchemaError(
                f"a message has no column {field.name!r}; {nearest(field.name, COLUMN_TYPES)}. "
                f"Select the columns to be written, for example "
                f"to_json(struct(*)) as value for whole rows"
            )
        if name in seen:
            raise SchemaError(
                f"the columns {seen[name]!r} and {field.name!r} mean the same: drop one"
            )
        seen[name] = field.name
        kind, fitting = field.dataType.simpleString(), COLUMN_TYPES[name]
        if kind not in fitting:
            raise SchemaError(
                f"the column {field.name!r} is of type {kind}, it must be {' or '.join(fitting)}: "
                f"cast it"
            )
    if VALUE not in seen:
        raise SchemaError(
            "the rows have no column 'value', which becomes the message's body: name it so, or "
            "select to_json(struct(*)) as value"
        )
    if BROKER_NAME in seen and QUEUE_ID not in seen:
        raise SchemaError("the column 'brokerName' names no queue without the column 'queueId'")


class RowReader:
    """Takes the columns of messages out of record batches.

    Args:
        value_size_max: bytes of one message's body; None for no bound.
    """

    def __init__(self, value_size_max: int | None) -> None:
        self._value_size_max = value_size_max
        self._rows_before = 0

    def columns(self, batch: Any) -> Columns:
        """The columns of a batch.

        Raises:
            RowError: a value is null or too large.
        """
        by_name = {
            ALIASES.get(name, name): column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        body = _plain(by_name[VALUE], pa.binary())
        self._check_bodies(body)
        self._rows_before += batch.num_rows
        return Columns(
            body,
            keys=_text(by_name.get(KEYS)),
            tags=_text(by_name.get(TAGS)),
            sharding_keys=_text(by_name.get(SHARDING_KEY)),
            properties=by_name.get(PROPERTIES),
        )

    def placed(self, error: RowError, batch_rows: int) -> RowError:
        """An error of the last batch with its row counted from the task's first one."""
        return RowError(self._rows_before - batch_rows + error.row, error.reason)

    def _check_bodies(self, body: Any) -> None:
        if body.null_count:
            row = int(np.argmax(np.array(body.is_null())))
            raise RowError(
                self._rows_before + row,
                "its value is null: filter such rows out, or give them a value with coalesce",
            )
        sizes = pc.binary_length(body)
        least, size = (pc.min_max(sizes)[end].as_py() for end in ("min", "max"))
        if least == 0:
            row = int(np.argmin(np.array(sizes)))
            raise RowError(
                self._rows_before + row,
                "its value is empty, which brokers refuse: filter such rows out, or give them at "
                "least one byte",
            )
        if self._value_size_max is not None and size > self._value_size_max:
            row = int(np.argmax(np.array(sizes)))
            raise RowError(
                self._rows_before + row,
                f"its value has {size} bytes, the limit is {self._value_size_max}: send it in "
                f"parts, raise maxMessageSize here and on the brokers, or name a largeRowTopic",
            )


def delays_of(batch: Any) -> Delays | None:
    """When the rows of a batch want to be delivered; None if all of them want it at once."""
    names = batch.schema.names
    if DELAY_LEVEL not in names and DELIVER_AT not in names:
        return None
    none = np.zeros(batch.num_rows, np.int64)
    levels = _numbers(batch[DELAY_LEVEL]) if DELAY_LEVEL in names else none
    at_ms = none
    if DELIVER_AT in names:
        column = batch[DELIVER_AT]
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        at_ms = _numbers(column)
    delays = Delays(levels, at_ms)
    return delays if delays.is_set.any() else None


def _numbers(column: Any) -> npt.NDArray[np.int64]:
    numbers: npt.NDArray[np.int64] = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def _text(column: Any) -> Any:
    return None if column is None else _plain(column, pa.string())


def _plain(column: Any, kind: Any) -> Any:
    """The column with 32-bit offsets, whatever Spark made of it."""
    return column if column.type == kind else column.cast(kind)
