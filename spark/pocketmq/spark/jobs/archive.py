"""Writes what retention is about to delete to files; to be run regularly.

``spark-submit archive.py Orders --to DIR`` does the same as ``pocketmq archive``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.topics import BrokerConfigRequest
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.settings import properties_from_text
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.landing import wanted
from pocketmq.spark.jobs.landing.job_options import LandingOptions
from pocketmq.spark.jobs.landing.land import land, read_settings
from pocketmq.spark.jobs.landing.landing import Landing
from pocketmq.spark.jobs.landing.reports import RangeReport
from pocketmq.spark.jobs.landing.wanted import Look
from pocketmq.spark.options import ReadOptions, read_options
from pocketmq.spark.session import job_session
from pocketmq.spark.topics import CALL_TIMEOUT_MS, queues_to_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = "archive"
HOUR_MS = 3_600_000
MARGIN_MS = 24 * HOUR_MS
RESERVED = "fileReservedTime"


@dataclass(frozen=True)
class ArchiveOptions(LandingOptions):
    """What is archived, and where.

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

    A message goes at the earliest when it is older than its broker's fileReservedTime; taken is
    what is older than that less the margin. What was deleted since the first run and was not
    archived (the job did not run in time, or the disk ran full) is in the report as lost, once.

    Args:
        options: what is archived, and where.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit, or the directory is that of something else.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed; it holds the reason.
    """
    settings = read_settings(options.topics, options.namesrv, options.reader_options)
    read = read_options(settings)
    landing = Landing(
        JOB,
        read.topics,
        options.to_dir,
        timezone=options.timezone,
        reader_options=options.reader_options,
        slice_rows=options.slice_rows,
    )
    landing.check()
    seen = run(_look(read, options.margin_ms))
    with job_session("pocketmq archive", options.cores, spark) as session:
        return land(
            session,
            landing,
            settings,
            seen,
            lambda ledger: wanted.from_the_first(ledger, seen),
            dry_run=options.dry_run,
            progress=options.progress,
            nothing_is_an_error=False,
        )


async def _look(read: ReadOptions, margin_ms: int) -> Look:
    now_ms = SystemClock().now_ms()
    async with ClientInstance(read.namesrv_addr) as instance:
        queues = await queues_to_read(instance, read.topics)
        until_ms = {
            broker_name: now_ms - reserved_ms + margin_ms
            for broker_name, reserved_ms in (await _reserved(instance, queues)).items()
        }
        for broker_name, limit_ms in until_ms.items():
            if limit_ms > now_ms:
                raise OptionError(
                    f"the margin is longer than {broker_name} keeps messages at all "
                    f"({RESERVED}): take a shorter one, or `pocketmq export` for all there is"
                )
        return await wanted.look(
            instance, read.topics, lambda _: None, lambda q: until_ms[q.broker_name]
        )


async def _reserved(instance: ClientInstance, queues: Sequence[MessageQueue]) -> dict[str, int]:
    """How long each broker keeps messages, in milliseconds."""
    found: dict[str, int] = {}
    for queue in queues:
        if queue.broker_name in found:
            continue
        address, _ = await instance.routes.locate(queue)
        answer = await instance.pool.ask(address, BrokerConfigRequest(), CALL_TIMEOUT_MS)
        text = properties_from_text(answer.body.decode()).get(RESERVED, "")
        if not text.isdigit():
            raise JobError(
                f"archive of {queue.topic}",
                f"broker {queue.broker_name} does not say how long it keeps messages: its "
                f"{RESERVED} is {text!r}",
            )
        found[queue.broker_name] = int(text) * HOUR_MS
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """For spark-submit: archives, prints one line or JSON, returns the exit code."""
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
