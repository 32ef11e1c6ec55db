"""The columns that a write takes, by their names and types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.spark.errors import SchemaError, nearest

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
    """Checks that rows of a schema can be written.

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
