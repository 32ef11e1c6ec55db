"""Writes the messages of a topic to files.

``spark-submit export.py Orders --to DIR`` does the same as ``pocketmq export``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pocketmq.protocol.errors import PocketMQError
from pocketmq.spark.errors import OptionError, nearest
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files import FORMATS
from pocketmq.spark.jobs.progress import shown
from pocketmq.spark.options import read_options
from pocketmq.spark.session import job_session
from pocketmq.transport.clock import SystemClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMAT = "pocketmq"
TEXT_FORMATS = ("csv", "json")
"""Formats without binary columns: values are written as text there."""


@dataclass(frozen=True)
class ExportOptions:
    """What is written, and where.

    Attributes:
        topic: one topic, or several separated by commas.
        to_dir: a directory that does not exist yet.
        namesrv: the name servers, ``host:port;host:port``; by default NAMESRV_ADDR.
        format: parquet, json, csv or orc.
        starting_offsets, ending_offsets: see the options of a read.
        value_as_text: write values as UTF-8 text; always so in csv and json.
        overwrite: replace what is in the directory.
        reader_options: further options of the data source.
        cores: of a local session; all by default.
        progress: show a bar on standard error.
    """

    topic: str
    to_dir: str
    namesrv: str | None = None
    format: str = "parquet"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    value_as_text: bool = False
    overwrite: bool = False
    reader_options: Mapping[str, str] = field(default_factory=dict)
    cores: int | None = None
    progress: bool = True


@dataclass(frozen=True)
class ExportReport:
    """What was written.

    Attributes:
        topic: what from.
        to_dir: where to.
        rows: how many messages.
        seconds: from the start of the job to its end, without the start of Spark.
    """

    topic: str
    to_dir: str
    rows: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Rows in a second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def __str__(self) -> str:
        return f"{self.rows:,} rows in {self.seconds:.1f} s, {self.rows_per_s:,.0f} rows/s"


def export(options: ExportOptions, spark: SparkSession | None = None) -> ExportReport:
    """Writes the messages of a topic to files.

    Args:
        options: what is written, and where.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed; it holds the broker's reason.
    """
    if options.format not in FORMATS:
        raise OptionError(
            f"the format {options.format!r} is not known; {nearest(options.format, FORMATS)}"
        )
    settings = {
        "subscribe": options.topic,
        "startingOffsets": options.starting_offsets,
        "endingOffsets": options.ending_offsets,
        **options.reader_options,
    }
    if options.namesrv is not None:
        settings["namesrvAddr"] = options.namesrv
    read_options(settings)
    with job_session("pocketmq export", options.cores, spark) as session:
        return _run(session, options, settings)


def _run(spark: SparkSession, options: ExportOptions, settings: dict[str, str]) -> ExportReport:
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    clock = SystemClock()
    seen = Observation("export")
    started = clock.monotonic()
    what = f"writing topic {options.topic} to {options.to_dir}"
    with shown(spark, f"export {options.topic}", None, is_wanted=options.progress), job(what):
        messages = spark.read.format(FORMAT).options(**settings).load()
        counted = messages.observe(seen, sf.count(sf.lit(1)).alias("rows"))
        rows = _fitting(counted, options)
        mode = "overwrite" if options.overwrite else "errorifexists"
        target = rows.write.format(options.format).mode(mode)
        if options.format == "csv":
            target = target.option("header", "true")
        target.save(options.to_dir)
        written = int(seen.get["rows"])
    return ExportReport(options.topic, options.to_dir, written, clock.monotonic() - started)


def _fitting(messages: DataFrame, options: ExportOptions) -> DataFrame:
    """The messages in types that the format has."""
    from pyspark.sql import functions as sf

    if options.value_as_text or options.format in TEXT_FORMATS:
        messages = messages.withColumn("value", sf.col("value").cast("string"))
    if options.format == "csv" and "properties" in messages.columns:
        messages = messages.withColumn("properties", sf.to_json("properties"))
    return messages


def main(arguments: Sequence[str] | None = None) -> int:
    """For spark-submit: writes, prints one line, returns the exit code."""
    parser = argparse.ArgumentParser(description="Write the messages of a topic to files.")
    parser.add_argument("topic")
    parser.add_argument("--to", dest="to_dir", required=True, help="directory")
    parser.add_argument("--namesrv", help="host:port;host:port; default NAMESRV_ADDR")
    parser.add_argument("--format", default="parquet", help="parquet, json, csv or orc")
    parser.add_argument("--starting-offsets", default="earliest")
    parser.add_argument("--ending-offsets", default="latest")
    parser.add_argument("--value-as-text", action="store_true")
    parser.add_argument("--overwrite", action="store_true")
    parser.add_argument("--cores", type=int, help="of a local session")
    given = parser.parse_args(arguments)
    try:
        report = export(ExportOptions(**vars(given), progress=sys.stderr.isatty()))
    except PocketMQError as e:
        sys.stderr.write(f"error: {e}\n")
        return 1
    sys.stdout.write(f"{report}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
