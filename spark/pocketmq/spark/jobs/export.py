"""Writes the messages of topics to files, by day.

``spark-submit export.py Orders --to DIR`` does the same as ``pocketmq export``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.files.ledger import Ledger
from pocketmq.spark.jobs.landing import selection
from pocketmq.spark.jobs.landing.landing import land
from pocketmq.spark.jobs.landing.selection import Selection, TopicBounds
from pocketmq.spark.jobs.options import ExportOptions
from pocketmq.spark.jobs.reports import RangeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ExportOptions", "export", "main"]

JOB = "export"


def export(options: ExportOptions, spark: SparkSession | None = None) -> RangeReport:
    """Writes the messages of topics to files, by day; what an earlier run wrote is left out.

    Args:
        options: which messages are written, and where.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit, or the directory is that of something else.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed, or there is nothing to export; it holds the reason.
    """

    async def ask(instance: ClientInstance, topics: Sequence[str]) -> TopicBounds:
        return await selection.topic_bounds(instance, topics, options.since_ms, options.until_ms)

    def select(ledger: Ledger, bounds: TopicBounds) -> Selection:
        starting, ending = options.starting_offsets, options.ending_offsets
        is_whole = (starting.strip().lower(), ending.strip().lower()) == ("earliest", "latest")
        if is_whole and options.since_ms is None:
            return selection.from_the_first(ledger, bounds)
        return selection.not_done(ledger, selection.selected_ranges(bounds, starting, ending))

    return land(JOB, options, ask, select, spark)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the export that a command line asks for; returns the exit code."""
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
    parser.add_schema("by which bodies are read")
    parser.add_argument("--keep-undecoded", action="store_true", help="in a column rawValue")
    parser.add_landing()
    return parser.run(arguments, lambda given: export(ExportOptions(**given)))


if __name__ == "__main__":
    sys.exit(main())
