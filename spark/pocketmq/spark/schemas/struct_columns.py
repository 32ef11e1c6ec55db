"""Columns of a table as the value of a schema: by the names and types of its fields."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from pocketmq.spark.errors import OptionError, nearest
from pocketmq.spark.schemas.bodies import VALUE, BodySchema
from pocketmq.spark.schemas.types import column_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def schema_column(
    rows: DataFrame, name: str | None, by: BodySchema, other_parts: Collection[str]
) -> Column:
    """Makes the column ``value`` that `encoded` takes.

    Single values are cast to the types of the schema: text of CSV becomes numbers and times.

    Args:
        rows: the table.
        name: a column or path with the value; None for the whole row.
        by: the schema.
        other_parts: columns that become other parts of a message: the schema need not have them.

    Raises:
        OptionError: there is no such column, or the schema lacks a column of the row.
    """
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    kind = column_type(by.codec())
    if name is not None:
        return sf.col(name).alias(VALUE)
    if not isinstance(kind, StructType):
        raise OptionError("the schema is none of rows: name the column with the body (--value)")
    if strange := [c for c in rows.columns if c not in kind.names and c not in other_parts]:
        raise OptionError(
            f"the schema has no field {strange[0]!r}, a column of the rows; "
            f"{nearest(strange[0], kind.names)}. Give a schema with it, or a table without it"
        )
    columns = []
    for field in kind:
        if field.name in rows.columns:
            column = sf.col("`" + field.name.replace("`", "``") + "`")
            if not _has_parts(field.dataType):
                column = column.cast(field.dataType)
            columns.append(column.alias(field.name))
    if not columns:
        raise OptionError("the rows have no column with the name of a field of the schema")
    return sf.struct(*columns).alias(VALUE)


def _has_parts(kind: object) -> bool:
    from pyspark.sql.types import ArrayType, MapType, StructType

    return isinstance(kind, (ArrayType, MapType, StructType))
