"""Reads JSON so that each value becomes JSON again as the file has it.

Spark gives a column one type: where one value is text, all become text, those within an array too,
and where one number is a fraction, all are. Columns that are read as variants keep each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pocketmq.spark.jobs.columns import JSON_OPTIONS, has_parts, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

TYPING_OPTIONS = frozenset(
    {"mode", "primitivesasstring", "prefersdecimal", "infertimestamp"}
    | {"timestampformat", "timestampntzformat", "dateformat", "columnnameofcorruptrecord"}
)
"""Options of Spark's reader, in small letters, that ask for its types or its rows of nulls."""

_NO_COLUMN = "__pocketmq_none"


def keeps_values(options: Iterable[str]) -> bool:
    """Whether values stay as they are, by the options that a user gave to Spark's reader."""
    return TYPING_OPTIONS.isdisjoint(name.lower() for name in options)


def variant_rows(
    spark: SparkSession, source: str, settings: Mapping[str, str], types: StructType
) -> DataFrame:
    """Reads JSON files with all columns as variants, but those that are names of folders.

    Args:
        spark: the session.
        source: the files.
        settings: of the reader.
        types: of the columns, as Spark infers them.
    """
    from pyspark.sql.types import StructField, StructType, VariantType

    reader = spark.read.format("json").options(**settings)
    _, *folders = reader.schema(f"{_NO_COLUMN} string").load(source).columns
    columns = [StructField(f.name, VariantType()) for f in types if f.name not in folders]
    return reader.schema(StructType(columns)).load(source)


def typed_columns(types: StructType) -> list[Column]:
    """Makes variants columns of the types that Spark infers, by which keys and tags are taken."""
    from pyspark.sql import functions as sf

    return [sf.col(quoted(f.name)).cast(f.dataType).alias(f.name) for f in types]


def exact_body(rows: DataFrame, types: StructType, value: str | None) -> Column | None:
    """Makes variants the JSON of a body; None if the value is no JSON or within an array.

    Args:
        rows: with variants.
        types: of the columns, as Spark infers them.
        value: column or path of the body; the whole row without it.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    if value is None:
        return sf.to_json(sf.struct(*(sf.col(quoted(c)) for c in rows.columns)), JSON_OPTIONS)
    head, *steps = [value] if value in types.names else value.split(".")
    if head not in types.names:
        return None
    kind = types[head].dataType
    for step in steps:
        if not isinstance(kind, StructType) or step not in kind.names:
            return None
        kind = kind[step].dataType
    if not has_parts(kind) or rows.schema[head].dataType == types[head].dataType:
        return None
    path = "".join(f"['{step}']" for step in steps)
    found = sf.variant_get(quoted(head), f"${path}", "variant")
    return sf.when(~sf.is_variant_null(found), sf.to_json(found))
