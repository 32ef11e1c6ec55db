"""Writes messages of topics to files by day: each once, however often a run is cut off.

A run writes slices. A slice is written into a hidden folder, then booked as written, then its files
are moved to their days, then it is booked as done. A slice that was cut off before it was booked as
written is thrown away and written anew; one that was cut off later is only moved.

If retention deletes messages of a slice before they are read, they are booked as lost, and the rest
is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.errors import OperatingError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.spark.errors import JobError, OptionError, nearest
from pocketmq.spark.jobs.columns import as_body
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.files import FORMATS
from pocketmq.spark.jobs.files.ledger import FOLDER, SCHEMA_SETTING, Ledger, LedgerFile, OpenSlice
from pocketmq.spark.jobs.landing.selection import (
    QueueEnds,
    Selection,
    TopicBounds,
    check_not_made_anew,
    deleted_of,
)
from pocketmq.spark.jobs.messages import messages_of, read_settings
from pocketmq.spark.jobs.options import ExportOptions, check_slices_and_times
from pocketmq.spark.jobs.progress import shown, written_rows
from pocketmq.spark.jobs.reports import RangeReport
from pocketmq.spark.jobs.spans import Spans, slices
from pocketmq.spark.options import ReadOptions, read_options
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.schemas.bodies import RAW, BodySchema, decoded, reading_schema
from pocketmq.spark.session import job_session
from pocketmq.spark.topics import queue_ends, queues_to_read

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

TEXT_FORMATS = ("csv", "json")
"""Formats without binary columns: values are written as text there."""

LOSSES_MAX = 10
"""How often a slice is begun again because retention was faster than the read."""

DAY = "day"
DAY_MS = 86_400_000

AskTopics = Callable[[ClientInstance, Sequence[str]], Awaitable[TopicBounds]]
SelectRanges = Callable[[Ledger, TopicBounds], Selection]


def land(
    name: str,
    options: ExportOptions,
    ask: AskTopics,
    select: SelectRanges,
    spark: SparkSession | None,
    *,
    is_error_without_messages: bool = True,
) -> RangeReport:
    """Runs a job that writes messages of topics to files.

    Args:
        name: of the job: export or archive.
        options: where to, and how; the messages are chosen by `ask` and `select`.
        ask: finds out what the topics hold.
        select: chooses what is written of it, by what earlier runs wrote.
        spark: the session; by default the active one, else a local one that is stopped at the end.
        is_error_without_messages: whether a first run fails that finds no message.

    Raises:
        OptionError: the options do not fit, or the directory is that of something else.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed, or there is nothing to write; it holds the reason.
    """
    read = read_options(read_settings(options.topic, options.namesrv, options.reader_options))
    check(options)

    async def asked() -> TopicBounds:
        async with read.client() as instance:
            return await ask(instance, read.topics)

    by = None
    if options.has_schema:
        by = reading_schema(
            options.schema,
            registry=options.schema_registry,
            subject=options.subject,
        )
    bounds = run(asked())
    with job_session(f"pocketmq {name}", options.cores, spark, registers=False) as session:
        landing = LandingRun(session, name, options, read, by)
        return landing.run(bounds, select, is_error_without_messages=is_error_without_messages)


def check(options: ExportOptions) -> None:
    """Checks that format, time zone, times and size of slices are possible.

    Raises:
        OptionError: one is not.
    """
    options.check_schema()
    if options.has_schema and options.value_as_text:
        raise OptionError("bodies are read by a schema or written as text: leave one of both out")
    check_slices_and_times(options.slice_rows, options.since_ms, options.until_ms)
    if options.format not in FORMATS:
        raise OptionError(
            f"the format {options.format!r} is not known; {nearest(options.format, FORMATS)}"
        )
    try:
        ZoneInfo(options.timezone)
    except (ZoneInfoNotFoundError, ValueError, OSError) as e:
        raise OptionError(
            f"the time zone {options.timezone!r} is not known: write UTC or a name such as "
            f"Europe/Berlin"
        ) from e


class LandingRun:
    """One run that writes messages of topics to the files of a directory.

    Args:
        spark: the session.
        name: of the job.
        options: where to, and how.
        read: options of the data source.
        by: the schema by which bodies are read; None for none.
    """

    def __init__(
        self,
        spark: SparkSession,
        name: str,
        options: ExportOptions,
        read: ReadOptions,
        by: BodySchema | None = None,
    ) -> None:
        self._by = by
        self._spark, self._name, self._options, self._read = spark, name, options, read
        self._topics = ",".join(read.topics)
        self._directory = Directory(spark, options.to_dir)
        self._file = LedgerFile(self._directory)
        self._is_first = False

    def run(
        self, bounds: TopicBounds, select: SelectRanges, *, is_error_without_messages: bool
    ) -> RangeReport:
        """Writes what is selected, and reports what was written and what is lost; see `land`."""
        clock = SystemClock()
        started = clock.monotonic()
        ledger = self.open()
        check_not_made_anew(ledger, bounds.ends)
        ranges, found_lost = select(ledger, bounds)
        if self._is_first and is_error_without_messages and not ranges:
            reason = "there are no messages"
            if any(least < following for least, following in bounds.ends.values()):
                reason = "none of the messages that are there is in the range that is asked for"
            raise JobError(f"{self._name} of {self._topics}", reason)
        rows = 0
        ledger.book_lost(found_lost)
        if not self._options.dry_run:
            rows = self._write(ledger, ranges)
        lost = list(Spans.of(ledger.unreported))
        if lost and not self._options.dry_run:
            ledger.unreported = {}
            self._file.save(ledger)
        if not self._options.dry_run:
            ranges = Spans(lost).missing_of(ranges)
        return RangeReport(
            job=self._name,
            topic=self._topics,
            to_dir=self._options.to_dir,
            rows=rows,
            seconds=clock.monotonic() - started,
            ranges=tuple(ranges),
            lost=tuple(lost),
            is_dry=self._options.dry_run,
        )

    def open(self) -> Ledger:
        """Opens the ledger of the directory: that of earlier runs, or a new one.

        A slice that an earlier run has written and not moved is moved; one that it did not finish
        is forgotten.

        Raises:
            OptionError: the directory is that of other rows, or of something else.
            JobError: the file system refuses, or another run is at work.
        """
        options, kept = self._options, self._kept_settings()
        loaded = None if options.overwrite else self._file.load(self._name, kept)
        self._is_first = loaded is None
        if self._is_first and not options.overwrite and self._directory.names():
            raise OptionError(
                f"{self._directory} exists already and is not from `pocketmq {self._name}`: take "
                f"another directory, or replace it (--overwrite)"
            )
        ledger = loaded or Ledger(job=self._name, settings=kept)
        if (part := ledger.open_slice) is not None:
            if not options.dry_run and part.rows is not None:
                self._move(part)
            if part.rows is None:
                ledger.open_slice = None
            else:
                ledger.finish_slice()
            if not options.dry_run:
                self._file.save(ledger)
                self._directory.delete(_folder(part))
        return ledger

    def _kept_settings(self) -> dict[str, str]:
        """The settings that must be the same in each run into one directory."""
        options = self._options
        return {
            "topics": ",".join(sorted(self._read.topics)),
            "format": options.format,
            "timezone": options.timezone,
            "valueAsText": str(_has_text(options)).lower(),
            **(
                {SCHEMA_SETTING: options.schema or options.subject or ""}
                if options.has_schema
                else {}
            ),
            **{f"option {k}": v for k, v in sorted(options.reader_options.items())},
        }

    def _write(self, ledger: Ledger, ranges: Iterable[Range]) -> int:
        """Writes ranges; returns how many messages there were."""
        if self._options.overwrite:
            self._directory.delete()
        before = ledger.rows
        parts = slices(ranges, self._options.slice_rows)
        total = sum(r.size for part in parts for r in part)
        self._file.save(ledger)  # also tells whether another run is at work
        with shown(
            self._spark,
            f"{self._name} {self._topics}",
            lambda group: written_rows(self._spark, group),
            is_wanted=self._options.progress,
            rows_total=total,
        ):
            for part in parts:
                self._write_slice(ledger, part)
        return ledger.rows - before

    def _write_slice(self, ledger: Ledger, ranges: Sequence[Range]) -> None:
        part = OpenSlice(number=ledger.slices + 1, ranges={})
        ledger.open_slice = part
        for losses_left in reversed(range(LOSSES_MAX)):
            part.ranges = Spans(ranges).table()
            self._file.save(ledger)
            self._directory.delete(_folder(part))
            if not ranges:
                part.rows = 0
                break
            try:
                part.rows = self._write_files(ranges, self._directory.uri(_folder(part)))
                break
            except JobError as e:
                lost = self._lost(ranges, e) if losses_left else []
                if not lost:
                    raise
                ledger.book_lost(lost)
                ranges = Spans(lost).missing_of(ranges)
        self._file.save(ledger)
        self._move(part)
        self._directory.delete(_folder(part))
        ledger.finish_slice()
        self._file.save(ledger)

    def _lost(self, ranges: Sequence[Range], failure: JobError) -> list[Range]:
        """Returns what retention has deleted of ranges whose read has failed."""

        async def ends() -> QueueEnds:
            async with self._read.client() as instance:
                return await queue_ends(instance, await queues_to_read(instance, self._read.topics))

        try:
            return deleted_of(ranges, run(ends()))
        except OperatingError:
            raise failure from None  # no broker answers: that is why the read failed

    def _write_files(self, ranges: Sequence[Range], folder: str) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        seen = Observation()
        options = self._options
        reading = {**options.reader_options, "namesrvAddr": self._read.namesrv_addr}
        with job(f"writing {self._topics} to {self._directory}"):
            messages = messages_of(self._spark, reading, ranges)
            if self._by is not None:
                messages = decoded(messages, self._by, keeps_undecoded=options.keep_undecoded)
            counted = messages.observe(seen, sf.count(sf.lit(1)).alias("rows"))
            dated = _fitting(counted, options).withColumn(
                DAY, day_column("storeTimestamp", options.timezone)
            )
            target = dated.write.format(options.format).partitionBy(DAY)
            if options.format == "csv":
                target = target.option("header", "true")
            target.save(folder)
            return int(seen.get["rows"])

    def _move(self, part: OpenSlice) -> None:
        """Moves the files of a slice from its folder to the folders of their days."""
        folder = _folder(part)
        for day in self._directory.names(folder):
            if not day.startswith(f"{DAY}="):
                continue
            for name in self._directory.names(f"{folder}/{day}"):
                self._directory.move(f"{folder}/{day}/{name}", f"{day}/{_name(part)}-{name}")


def _name(part: OpenSlice) -> str:
    return f"slice-{part.number:05}"


def _folder(part: OpenSlice) -> str:
    return f"{FOLDER}/{_name(part)}"


def day_column(timestamp: str, timezone: str) -> Column:
    """The day of a time in a time zone, whatever the session's own zone."""
    from pyspark.sql import functions as sf

    local = sf.from_utc_timestamp(timestamp, timezone)
    return sf.date_from_unix_date(sf.floor(sf.unix_millis(local) / DAY_MS).cast("int"))


def _has_text(options: ExportOptions) -> bool:
    return options.value_as_text or options.format in TEXT_FORMATS


def _fitting(messages: DataFrame, options: ExportOptions) -> DataFrame:
    """The messages in column types that the format has."""
    from pyspark.sql import functions as sf

    if options.has_schema and options.format == "csv":
        messages = messages.withColumn(
            "value", as_body(sf.col("value"), messages.schema["value"].dataType)
        )
        if RAW in messages.columns:
            messages = messages.withColumn(RAW, sf.base64(RAW))
    elif _has_text(options) and not options.has_schema:
        messages = messages.withColumn("value", sf.col("value").cast("string"))
    if options.format == "csv" and "properties" in messages.columns:
        messages = messages.withColumn("properties", sf.to_json("properties"))
    return messages
