"""Finds the row of a file that Spark could not read: it names neither line nor text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pocketmq.spark.errors import JobError
from pocketmq.spark.jobs.failures import java_messages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BAD_ROW_MARKS = ("MALFORMED", "COLUMN_ALREADY_EXISTS", "already exists")
"""Stand in Spark's errors of rows that cannot be read, and of objects with one name twice."""

TEXT_LENGTH_MAX = 200
_TEXT, _PATH, _BLOCK, _ID = (f"__pocketmq_{name}" for name in ("text", "path", "block", "id"))


def named_row(
    failure: JobError,
    spark: SparkSession,
    source: str,
    file_format: str,
    settings: Mapping[str, str],
) -> JobError:
    """Adds to a failure the row that could not be read: its file, its line and its text.

    Args:
        failure: of a job that read CSV or JSON; returned as it is if it has another reason.
        spark: the session.
        source: the files.
        file_format: of the files.
        settings: of the reader that failed.
    """
    cause = failure.__context__
    said = () if cause is None else (str(cause), *java_messages(cause))
    if file_format not in ("csv", "json") or not any(
        m in text for m in BAD_ROW_MARKS for text in said
    ):
        return failure
    reason = _bad_row(spark, source, file_format, settings)
    return failure if reason is None else JobError(failure.job, reason)


def _bad_row(
    spark: SparkSession, source: str, file_format: str, settings: Mapping[str, str]
) -> str | None:
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf

    try:
        rows = _parsed(spark, source, file_format, settings)
    except AnalysisException:  # the types are not to be had: an object has one name twice
        rows = _lines(spark, source).where(sf.try_parse_json("value").isNull())
        rows = rows.withColumnRenamed("value", _TEXT)
    bad = rows.where(sf.trim(_TEXT) != "").first()
    if bad is None:
        return None
    text: str = bad[_TEXT]
    line = _line_of(spark, source, bad[_PATH], text)
    place = bad[_PATH] if line is None else f"line {line} of {bad[_PATH]}"
    shown = text if len(text) <= TEXT_LENGTH_MAX else f"{text[:TEXT_LENGTH_MAX]}…"
    return (
        f"{place} cannot be read as {file_format.upper()} (malformed): {shown!r}; mend it, or make "
        f"nulls of such rows with the reader's option mode=PERMISSIVE (--read mode=PERMISSIVE)"
    )


def _parsed(
    spark: SparkSession, source: str, file_format: str, settings: Mapping[str, str]
) -> DataFrame:
    """Reads the files with a column that has the text of each row that cannot be read."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StringType, StructField, StructType, VariantType

    lenient = {**settings, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _TEXT}
    reader = spark.read.format(file_format).options(**lenient)
    columns = [f for f in reader.load(source).schema if f.name != _TEXT]
    if file_format == "json":  # a variant refuses what Spark's types pass over
        columns = [StructField(f.name, VariantType()) for f in columns]
    schema = StructType([*columns, StructField(_TEXT, StringType())])
    rows = reader.schema(schema).load(source)
    return rows.select("*", sf.col("_metadata.file_path").alias(_PATH))


def _lines(spark: SparkSession, source: str) -> DataFrame:
    """Reads the lines of files, with their places."""
    from pyspark.sql import functions as sf

    lines = spark.read.format("text").load(source)
    path, block = sf.col("_metadata.file_path"), sf.col("_metadata.file_block_start")
    number = sf.monotonically_increasing_id()
    return lines.select("value", path.alias(_PATH), block.alias(_BLOCK), number.alias(_ID))


def _line_of(spark: SparkSession, source: str, path: str, text: str) -> int | None:
    """Finds the number of the first line of a file that is a text; None for a row of many lines."""
    from pyspark.sql import functions as sf

    lines = _lines(spark, source).where(sf.col(_PATH) == path)
    found = lines.where(sf.col("value") == text).orderBy(_BLOCK, _ID).first()
    if found is None:
        return None
    is_earlier = (sf.col(_BLOCK) < found[_BLOCK]) | (
        (sf.col(_BLOCK) == found[_BLOCK]) & (sf.col(_ID) < found[_ID])
    )
    return lines.where(is_earlier).count() + 1
