"""A run that turns messages into files: plan it, write what is new, and report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.spark.errors import JobError
from pocketmq.spark.jobs.files.ledger import Ledger
from pocketmq.spark.jobs.landing import wanted
from pocketmq.spark.jobs.landing.job_options import refuse_own
from pocketmq.spark.jobs.landing.landing import Landing, LandingRun
from pocketmq.spark.jobs.landing.reports import RangeReport
from pocketmq.spark.jobs.landing.wanted import Look, QueueEnds, Wanted
from pocketmq.spark.jobs.spans import Spans
from pocketmq.spark.options import read_options
from pocketmq.spark.topics import queue_ends, queues_to_read

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_OWN_OPTIONS = {
    *("startingoffsets", "endingoffsets", "startingtimestamp", "endingtimestamp"),
    *("startingoffsetsbytimestamp", "endingoffsetsbytimestamp"),
    *("subscribe", "topic", "subscribepattern", "assign"),
}


def read_settings(topic: str, namesrv: str | None, further: Mapping[str, str]) -> dict[str, str]:
    """Options of the data source; offsets are the job's own business.

    Raises:
        OptionError: offsets or topics are among the further options.
    """
    refuse_own(further, _OWN_OPTIONS)
    settings = {"subscribe": topic, **further}
    if namesrv is not None:
        settings["namesrvAddr"] = namesrv
    return settings


def land(
    spark: SparkSession,
    landing: Landing,
    settings: Mapping[str, str],
    seen: Look,
    choose: Callable[[Ledger], Wanted],
    *,
    overwrite: bool = False,
    dry_run: bool,
    progress: bool,
    nothing_is_an_error: bool = True,
) -> RangeReport:
    """Writes what is wanted of topics to files.

    Args:
        spark: the session.
        landing: how and where to.
        settings: options of the data source.
        seen: what the topics hold.
        choose: what of it is to be written, by what earlier runs did.
        overwrite: replace what is there.
        dry_run: only say what would be written.
        progress: show a bar.
        nothing_is_an_error: whether a first run without any message fails.

    Raises:
        OptionError: the directory is that of something else.
        JobError: the job failed, or there is nothing to write.
    """
    clock = SystemClock()
    started = clock.monotonic()
    reading = {k: v for k, v in settings.items() if k.lower() not in _OWN_OPTIONS}
    landing_run = LandingRun(spark, landing, reading, lambda: run(_ends(settings)))
    ledger = landing_run.open(overwrite=overwrite, dry_run=dry_run)
    wanted.check_not_made_anew(ledger, seen)
    found = choose(ledger)
    if landing_run.is_first and nothing_is_an_error and not found.ranges:
        reason = "there are no messages"
        if any(least < following for least, following in seen.ends.values()):
            reason = "none of the messages that are there is in the range that is asked for"
        raise JobError(f"{landing.job} of {','.join(landing.topics)}", reason)
    rows, ranges = 0, list(found.ranges)
    ledger.book_lost(found.lost)
    lost = list(Spans.of(ledger.untold))
    if not dry_run:
        rows = landing_run.write(ledger, ranges, seen.ends, overwrite=overwrite, progress=progress)
        lost = landing_run.tell_lost(ledger)
        ranges = Spans(lost).missing_of(ranges)
    return RangeReport(
        job=landing.job,
        topic=",".join(landing.topics),
        to_dir=landing.to_dir,
        rows=rows,
        seconds=clock.monotonic() - started,
        ranges=tuple(ranges),
        lost=tuple(lost),
        is_dry=dry_run,
    )


async def _ends(settings: Mapping[str, str]) -> QueueEnds:
    options = read_options(settings)
    async with ClientInstance(options.namesrv_addr) as instance:
        return await queue_ends(instance, await queues_to_read(instance, options.topics))
