"""Writes the messages of topics to files, by day.

``spark-submit export.py Orders --to DIR`` does the same as ``pocketmq export``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.runtime.process import run
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.files.ledger import Ledger
from pocketmq.spark.jobs.landing import wanted
from pocketmq.spark.jobs.landing.job_options import LandingOptions
from pocketmq.spark.jobs.landing.land import land, read_settings
from pocketmq.spark.jobs.landing.landing import Landing
from pocketmq.spark.jobs.landing.reports import RangeReport
from pocketmq.spark.jobs.landing.wanted import Look, Wanted
from pocketmq.spark.options import ReadOptions, read_options
from pocketmq.spark.session import job_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "export"


@dataclass(frozen=True)
class ExportOptions(LandingOptions):
    """What is written, and where.

    Attributes:
        topic: one topic, or several separated by commas.
        to_dir: a directory that does not exist yet, or one of an earlier export of the same
            topics, to which what is new is added.
        format: parquet, json, csv or orc.
        starting_offsets, ending_offsets: see the options of a read.
        since_ms, until_ms: messages stored at this time or later, and before that one, in
            milliseconds since the epoch.
        value_as_text: write values as UTF-8 text; always so in csv and json.
        overwrite: replace what is in the directory.
    """

    topic: str
    to_dir: str
    format: str = "parquet"
    starting_offsets: str = "earliest"
    ending_offsets: str = "latest"
    since_ms: int | None = None
    until_ms: int | None = None
    value_as_text: bool = False
    overwrite: bool = False


def export(options: ExportOptions, spark: SparkSession | None = None) -> RangeReport:
    """Writes the messages of topics to files, by day; what an earlier run wrote is left out.

    Args:
        options: what is written, and where.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit, or the directory is that of something else.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed, or there is nothing to export; it holds the reason.
    """
    settings = read_settings(options.topic, options.namesrv, options.reader_options)
    read = read_options(settings)
    wanted.check_order(options.since_ms, options.until_ms)
    landing = Landing(
        JOB,
        read.topics,
        options.to_dir,
        options.format,
        options.timezone,
        options.value_as_text,
        options.reader_options,
        options.slice_rows,
    )
    landing.check()
    seen = run(_look(read, options))
    with job_session("pocketmq export", options.cores, spark) as session:
        return land(
            session,
            landing,
            settings,
            seen,
            lambda ledger: _wanted(options, ledger, seen),
            overwrite=options.overwrite,
            dry_run=options.dry_run,
            progress=options.progress,
        )


async def _look(read: ReadOptions, options: ExportOptions) -> Look:
    async with ClientInstance(read.namesrv_addr) as instance:
        return await wanted.look(
            instance, read.topics, lambda _: options.since_ms, lambda _: options.until_ms
        )


def _wanted(options: ExportOptions, ledger: Ledger, seen: Look) -> Wanted:
    is_from_the_first = (
        options.starting_offsets.strip().lower() == "earliest"
        and options.ending_offsets.strip().lower() == "latest"
        and options.since_ms is None
    )
    if is_from_the_first:
        return wanted.from_the_first(ledger, seen)
    ranges = wanted.chosen(seen, options.starting_offsets, options.ending_offsets)
    return wanted.not_done(ledger, ranges)


def main(arguments: Sequence[str] | None = None) -> int:
    """For spark-submit: writes, prints one line or JSON, returns the exit code."""
    parser = JobParser("Write the messages of topics to files, by day.")
    parser.add_argument("topic", help="one topic, or several with commas")
    parser.add_argument("--to", dest="to_dir", required=True, help="directory; earlier runs go on")
    parser.add_argument("--format", default="parquet", help="parquet, json, csv or orc")
    parser.add_argument("--starting-offsets", default="earliest")
    parser.add_argument("--ending-offsets", default="latest")
    parser.add_instant("--since", "messages stored at this time or later")
    parser.add_instant("--until", "messages stored before this time")
    parser.add_argument("--text", dest="value_as_text", action="store_true", help="values as text")
    parser.add_argument("--overwrite", action="store_true", help="replace the directory")
    parser.add_landing()
    return parser.run(arguments, lambda given: export(ExportOptions(**given)))


if __name__ == "__main__":
    sys.exit(main())
