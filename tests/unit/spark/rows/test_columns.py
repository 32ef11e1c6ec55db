"""Which rows can be written is known from their columns, before a job starts."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pocketmq.spark.errors import RowError, SchemaError
from pocketmq.spark.rows.columns import RowReader, check_schema

types = pytest.importorskip("pyspark.sql.types")

KINDS = {
    "binary": types.BinaryType(),
    "string": types.StringType(),
    "int": types.IntegerType(),
    "bigint": types.LongType(),
    "map<string,string>": types.MapType(types.StringType(), types.StringType()),
    "map<string,int>": types.MapType(types.StringType(), types.IntegerType()),
}


def schema_of(text: str) -> Any:
    """A schema of ``name type`` pairs; Spark's own parser would need a session."""
    pairs = (part.split() for part in text.split(", "))
    return types.StructType([types.StructField(name, KINDS[kind]) for name, kind in pairs])


@pytest.mark.parametrize(
    "schema",
    [
        "value binary",
        "body string",
        "value string, key string, tags string",
        "value string, shardingKey string, properties map<string,string>",
        "value string, queueId int",
        "value string, queueId bigint, brokerName string",
    ],
)
def test_schemas_that_fit(schema: str) -> None:
    check_schema(schema_of(schema))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("key string", "no column 'value'"),
        ("value int", "'value' is of type int, it must be binary or string"),
        ("value string, key int", "'key' is of type int, it must be string"),
        ("value string, propertys map<string,string>", "did you mean 'properties'"),
        ("value string, properties map<string,int>", "map<string,string>"),
        ("value string, key string, keys string", "'key' and 'keys' mean the same"),
        ("value string, brokerName string", "without the column 'queueId'"),
    ],
)
def test_schemas_that_do_not(schema: str, text: str) -> None:
    with pytest.raises(SchemaError, match=text):
        check_schema(schema_of(schema))


def batch(*values: bytes | None) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary())})


def test_text_and_large_types_become_plain() -> None:
    rows = RowReader(100).rows(
        pa.record_batch(
            {
                "body": pa.array(["ä"], pa.large_string()),
                "key": pa.array(["k"], pa.large_string()),
            }
        )
    )
    assert rows.body.to_pylist() == ["ä".encode()]
    assert rows.body.type == pa.binary()
    assert rows.keys.type == pa.string()


@pytest.mark.parametrize(
    ("value", "text"), [(None, "null"), (b"", "empty"), (b"x" * 11, "11 bytes, the limit is 10")]
)
def test_values_that_cannot_be_sent_are_refused_with_their_row(
    value: bytes | None, text: str
) -> None:
    reader = RowReader(10)
    reader.rows(batch(b"a", b"b"))
    with pytest.raises(RowError, match=rf"row 3 of this task .*{text}"):
        reader.rows(batch(b"c", value))
