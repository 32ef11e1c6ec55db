"""Reads files and tables with Spark."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pocketmq.spark.errors import JobError, OptionError, nearest
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.bad_rows import named_row
from pocketmq.spark.jobs.files.json_values import keeps_values, variant_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMAT_BY_SUFFIX = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".orc": "orc",
}
FORMATS = ("parquet", "csv", "json", "orc")
LINE_OPTIONS = frozenset({"multiline", "quote", "escape", "linesep", "encoding", "charset"})
"""Options of Spark's reader of CSV, in small letters, by which a user says what a row is."""

_IN_PATTERNS = re.compile(r"[][{}*?,\\]")
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")

_DEFAULTS: dict[str, dict[str, str]] = {
    # A row that cannot be read is an error: as nulls it would be sent without anybody's notice.
    # Quotes are doubled (RFC 4180), as spreadsheets write them; Spark expects backslashes.
    "csv": {"header": "true", "mode": "FAILFAST", "escape": '"'},
    "json": {"mode": "FAILFAST"},
}


class Source(NamedTuple):
    """Rows, and where they come from.

    Attributes:
        rows: as Spark reads them.
        is_file: whether they come straight from files, so that Spark knows their places there.
        format: of the files; empty for a table.
        settings: of the reader.
        types: of JSON whose columns are variants: those that Spark infers.
    """

    rows: DataFrame
    is_file: bool
    format: str = ""
    settings: Mapping[str, str] = {}
    types: StructType | None = None

    def has_rows(self, path: str) -> bool:
        """Whether a file has rows; reads it by itself.

        Args:
            path: of a single file; characters of patterns stand for themselves.
        """
        reader = self.rows.sparkSession.read.format(self.format).options(**self.settings)
        return not reader.load(_IN_PATTERNS.sub(r"\\\g<0>", path)).isEmpty()


def read_rows(
    spark: SparkSession,
    source: str,
    file_format: str | None,
    options: Mapping[str, str],
    *,
    has_whole_files: bool = False,
) -> Source:
    """Reads the rows of a file, a directory, a pattern or a table of the catalog.

    Args:
        spark: the session.
        source: a path (also with a scheme, such as s3a://) or the name of a table.
        file_format: of the file; by default that of its suffix.
        options: of Spark's reader.
        has_whole_files: read each CSV file by one task, without looking whether that is needed.

    Raises:
        OptionError: there is no such file or table, or its format is not known.
        JobError: a row cannot be read.
    """
    if file_format is None and not _is_path(source):
        if spark.catalog.tableExists(source):
            return Source(spark.table(source), False)
        raise OptionError(f"{source!r} is neither a file nor a table of this Spark session")
    found = file_format or _format_of(source)
    if found not in FORMATS:
        raise OptionError(f"the format {found!r} is not known; {nearest(found, FORMATS)}")
    if not _exists(spark, source):
        raise OptionError(f"there is no file {source!r}")
    settings = {**_DEFAULTS.get(found, {}), **options}
    if ".tsv" in Path(source).suffixes:
        settings.setdefault("sep", "\t")
    if found == "csv" and LINE_OPTIONS.isdisjoint(name.lower() for name in options):
        is_whole = has_whole_files or _has_line_breaks(spark, source)
        settings["multiLine"] = str(is_whole).lower()
    try:
        with job(f"reading {source}"):
            rows = spark.read.format(found).options(**settings).load(source)
    except JobError as e:
        raise named_row(e, spark, source, found, settings) from e.__cause__
    if found != "json" or not rows.columns or not keeps_values(options):
        return Source(rows, True, found, settings)
    variants = variant_rows(spark, source, settings, rows.schema)
    return Source(variants, True, found, settings, rows.schema)


def _has_line_breaks(spark: SparkSession, source: str) -> bool:
    """Whether a row of CSV may go on in the next line: some line has a quote without its twin."""
    from pyspark.sql import functions as sf

    lines = spark.read.format("text").load(source).select("value")
    quotes = sf.length("value") - sf.length(sf.replace("value", sf.lit('"')))
    with job(f"reading {source}"):
        return not lines.where(quotes % 2 == 1).isEmpty()


def _exists(spark: SparkSession, source: str) -> bool:
    """Whether a path or pattern matches a file in its file system, which need not be local."""
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(source)
    found = path.getFileSystem(spark._jsc.hadoopConfiguration()).globStatus(path)
    return bool(found)


def _is_path(source: str) -> bool:
    return (
        "://" in source
        or "/" in source
        or bool(glob.glob(source))
        or _suffix(Path(source)) in FORMAT_BY_SUFFIX
    )


def _suffix(path: Path) -> str:
    while path.suffix.lower() in _PACKED:
        path = path.with_suffix("")
    return path.suffix.lower()


def _format_of(source: str) -> str:
    candidates = [Path(source)]
    for name in glob.glob(source):
        path = Path(name)
        candidates += sorted(path.rglob("*"))[:1000] if path.is_dir() else [path]
    for candidate in candidates:
        if (known := FORMAT_BY_SUFFIX.get(_suffix(candidate))) is not None:
            return known
    raise OptionError(
        f"the format of {source!r} cannot be told from its name: give it, one of "
        f"{', '.join(FORMATS)}"
    )
