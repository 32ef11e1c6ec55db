"""Writes what retention is about to delete to files; to be run regularly.

``spark-submit archive.py Orders --to DIR`` does the same as ``pocketmq archive``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pocketmq.client.admin import Admin
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.runtime.clock import SystemClock
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.landing import selection
from pocketmq.spark.jobs.landing.landing import land
from pocketmq.spark.jobs.landing.selection import TopicBounds
from pocketmq.spark.jobs.options import ExportOptions, LandingOptions
from pocketmq.spark.jobs.reports import RangeReport
from pocketmq.spark.topics import queues_to_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "archive"
HOUR_MS = 3_600_000
MARGIN_MS = 24 * HOUR_MS
RESERVED = "fileReservedTime"


@dataclass(frozen=True)
class ArchiveOptions(LandingOptions):
    """Which messages are archived, and where.

    Attributes:
        topics: one topic, or several separated by commas.
        to_dir: the archive, the same in each run.
        margin_ms: how long before retention may delete a message it is archived. Run the job more
            often than this.
    """

    topics: str
    to_dir: str
    margin_ms: int = MARGIN_MS


def archive(options: ArchiveOptions, spark: SparkSession | None = None) -> RangeReport:
    """Writes what retention is about to delete to Parquet files by day, each message once.

    Retention deletes a message at the earliest when it is older than the fileReservedTime of its
    broker; the archive takes messages that are older than that less the margin. Messages that were
    deleted since the first run and were not archived (the job did not run in time, or the disk ran
    full) are in the report as lost, once.

    Args:
        options: which messages are archived, and where.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit, or the directory is that of something else.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed; it holds the reason.
    """
    given = dict(vars(options))
    margin_ms, topics = given.pop("margin_ms"), given.pop("topics")

    async def ask(instance: ClientInstance, names: Sequence[str]) -> TopicBounds:
        until_ms = await _end_times(instance, names, margin_ms)
        return await selection.topic_bounds(
            instance, names, None, lambda queue: until_ms[queue.broker_name]
        )

    exported = ExportOptions(topic=topics, **given)
    return land(
        JOB, exported, ask, selection.from_the_first, spark, is_error_without_messages=False
    )


async def _end_times(
    instance: ClientInstance, topics: Sequence[str], margin_ms: int
) -> dict[str, int]:
    """Asks each broker how long it keeps messages; returns up to which time they are archived."""
    admin = Admin(instance=instance)
    now_ms = SystemClock().now_ms()
    times: dict[str, int] = {}
    for queue in await queues_to_read(instance, topics):
        if queue.broker_name in times:
            continue
        address, _ = await instance.routes.locate(queue)
        text = (await admin.broker_config(address)).get(RESERVED, "")
        if not text.isdigit():
            raise JobError(
                f"archive of {queue.topic}",
                f"broker {queue.broker_name} does not say how long it keeps messages: its "
                f"{RESERVED} is {text!r}",
            )
        times[queue.broker_name] = now_ms - int(text) * HOUR_MS + margin_ms
    for broker_name, time_ms in times.items():
        if time_ms > now_ms:
            raise OptionError(
                f"the margin is longer than {broker_name} keeps messages at all ({RESERVED}): "
                f"take a shorter one, or `pocketmq export` for all there is"
            )
    return times


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the archive that a command line asks for; returns the exit code."""
    parser = JobParser("Write what retention is about to delete to Parquet files by day.")
    parser.add_argument("topics", help="one topic, or several with commas")
    parser.add_argument("--to", dest="to_dir", required=True, help="the archive's directory")
    parser.add_argument("--margin-hours", type=float, default=MARGIN_MS / HOUR_MS)
    parser.add_landing()

    def job(given: dict[str, object]) -> RangeReport:
        margin_ms = round(float(str(given.pop("margin_hours"))) * HOUR_MS)
        return archive(ArchiveOptions(**given, margin_ms=margin_ms))  # type: ignore[arg-type]

    return parser.run(arguments, job)


if __name__ == "__main__":
    sys.exit(main())
