"""Makes columns of a table, by the names that people give, the parts of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pocketmq.spark.errors import OptionError, nearest
from pocketmq.spark.jobs.failures import reason_of

JSON_OPTIONS = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""How rows become JSON. By default Spark leaves nulls out and cuts times to milliseconds."""

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


def quoted(name: str) -> str:
    """Quotes the name of a column for Spark's SQL."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def named_column(rows: DataFrame, name: str) -> tuple[Column, DataType]:
    """Finds a column by its name, or a field by its path, as ``customer.id``, and its type.

    Raises:
        OptionError: there is no such column.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf

    if name in rows.columns:
        return sf.col(quoted(name)), rows.schema[name].dataType
    head, dot, _ = name.partition(".")
    if not dot or head not in rows.columns:
        raise OptionError(f"there is no column {name!r}; {nearest(name, rows.columns)}")
    column = sf.col(name)
    try:
        return column, rows.select(column.alias("found")).schema["found"].dataType
    except AnalysisException as e:
        kind = rows.schema[head].dataType.simpleString()
        raise OptionError(
            f"there is no column {name!r}: {head} is a {kind} ({reason_of(e)})"
        ) from e


def text_column(rows: DataFrame, name: str, part: str) -> Column:
    """Casts a column to text, for a part of a message that people search by.

    Args:
        rows: the table.
        name: see `named_column`.
        part: what it becomes, in words.

    Raises:
        OptionError: there is no such column, or it holds more than one value a row.
    """
    from pyspark.sql.types import StructType

    column, kind = named_column(rows, name)
    example = f", as {name}.{kind.names[0]}" if isinstance(kind, StructType) and kind.names else ""
    return as_text(column, kind, f"column {name!r}", f"{part}: name one of its parts{example}")


def as_text(column: Column, kind: DataType, said: str, part: str) -> Column:
    """Casts an expression to text.

    Raises:
        OptionError: it has parts, so that Spark's text of it would be no key or tag.
    """
    if has_parts(kind):
        raise OptionError(f"{said} is a {kind.simpleString()} and cannot be the {part}")
    return column.cast("string")


def body_column(rows: DataFrame, name: str) -> Column:
    """Makes a column the body; see `as_body`.

    Raises:
        OptionError: there is no such column.
    """
    return as_body(*named_column(rows, name))


def as_body(column: Column, kind: DataType) -> Column:
    """Makes an expression the body: bytes as they are, JSON if it has parts, else text."""
    from pyspark.sql import functions as sf

    if kind.simpleString() in ("binary", "string"):
        return column
    if has_parts(kind):
        return sf.to_json(column, JSON_OPTIONS)
    return column.cast("string")


def has_parts(kind: DataType) -> bool:
    """Whether values of a type hold further values, so that their text is JSON."""
    return kind.typeName() in ("struct", "array", "map", "variant")
