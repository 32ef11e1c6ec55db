"""Files and tables as Spark reads them."""

from __future__ import annotations

import glob
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.spark.errors import OptionError, nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy")

_DEFAULTS: dict[str, dict[str, str]] = {
    # A row that cannot be read is an error: as nulls it would be sent without anybody's notice.
    "csv": {"header": "true", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
}


class Source(NamedTuple):
    """Rows, and whether they come straight from files, so that Spark knows their places there."""

    rows: DataFrame
    is_file: bool


def read_rows(
    spark: SparkSession, source: str, file_format: str | None, options: Mapping[str, str]
) -> Source:
    """The rows of a file, a directory, a pattern or a table of the catalog.

    Args:
        spark: the session.
        source: a path (also with a scheme, such as s3a://) or the name of a table.
        file_format: of the file; by default told by its suffix.
        options: of Spark's reader.

    Raises:
        OptionError: there is no such file or table, or its format is not known.
    """
    if file_format is None and not _is_path(source):
        if spark.catalog.tableExists(source):
            return Source(spark.table(source), False)
        raise OptionError(f"{source!r} is neither a file nor a table of this Spark session")
    found = file_format or _format_of(source)
    if found not in FORMATS:
        raise OptionError(f"the format {found!r} is not known; {nearest(found, FORMATS)}")
    if "://" not in source and not glob.glob(source):
        raise OptionError(f"there is no file {source!r}")
    settings = {**_DEFAULTS.get(found, {}), **options}
    if ".tsv" in Path(source).suffixes:
        settings.setdefault("sep", "\t")
    return Source(spark.read.format(found).options(**settings).load(source), True)


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
