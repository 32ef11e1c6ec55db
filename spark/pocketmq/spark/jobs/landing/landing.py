"""Messages of topics into files by day: each once, however often a run is cut off.

A run writes slices. A slice is written into a hidden folder, then booked as written, then its files
are moved to their days, then it is booked as done. What was cut off before it was booked as written
is thrown away and written anew; what was cut off later is only moved.

If retention deletes messages of a slice before they are read, they are booked as lost, and the rest
is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import JobError, OptionError, nearest
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.files import FORMATS
from pocketmq.spark.jobs.files.ledger import Ledger, LedgerFile, OpenSlice
from pocketmq.spark.jobs.landing.wanted import QueueEnds, gone
from pocketmq.spark.jobs.progress import JobRows, shown
from pocketmq.spark.jobs.spans import Spans, offset_options, slices
from pocketmq.spark.reading.offsets import Range

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FORMAT = "pocketmq"
TEXT_FORMATS = ("csv", "json")
"""Formats without binary columns: values are written as text there."""

SLICE_ROWS = 10_000_000
"""Messages of a slice: what a run that is cut off has to write again at the most."""

LOSSES_MAX = 10
"""How often a slice is begun again because retention was faster than the read."""

FOLDER = "_pocketmq"
"""In the target, hidden from Spark's readers: the ledger, and the slice that is being written."""

DAY = "day"
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Landing:
    """How messages become files.

    Attributes:
        job: which job it is: export or archive.
        topics: what from.
        to_dir: where to.
        format: parquet, json, csv or orc.
        timezone: whose days they are.
        value_as_text: write values as UTF-8 text; always so in csv and json.
        reader_options: of the data source.
        slice_rows: messages of a slice, about.
    """

    job: str
    topics: tuple[str, ...]
    to_dir: str
    format: str = "parquet"
    timezone: str = "UTC"
    value_as_text: bool = False
    reader_options: Mapping[str, str] = field(default_factory=dict)
    slice_rows: int = SLICE_ROWS

    def check(self) -> None:
        """Makes sure that format, time zone and size of slices are possible.

        Raises:
            OptionError: one is not.
        """
        from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

        if self.format not in FORMATS:
            raise OptionError(
                f"the format {self.format!r} is not known; {nearest(self.format, FORMATS)}"
            )
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as e:
            raise OptionError(
                f"the time zone {self.timezone!r} is not known: write UTC or a name such as "
                f"Europe/Berlin"
            ) from e
        if self.slice_rows < 1:
            raise OptionError(f"a slice has at least 1 message, not {self.slice_rows}")

    def kept_settings(self) -> dict[str, str]:
        """What must be the same in each run into one directory."""
        return {
            "topics": ",".join(sorted(self.topics)),
            "format": self.format,
            "timezone": self.timezone,
            "valueAsText": str(self.value_as_text or self.format in TEXT_FORMATS).lower(),
            **{f"option {k}": v for k, v in sorted(self.reader_options.items())},
        }


class LandingRun:
    """One run into one directory.

    Args:
        spark: the session.
        landing: what is to become of messages.
        read_settings: options of the data source without topics and offsets.
        ends: asks for the least and the next offset of each queue, as they are now.
    """

    def __init__(
        self,
        spark: SparkSession,
        landing: Landing,
        read_settings: Mapping[str, str],
        ends: Callable[[], QueueEnds],
    ) -> None:
        self._spark, self._landing = spark, landing
        self._read_settings = dict(read_settings)
        self._ends = ends
        self._directory = Directory(spark, landing.to_dir)
        self._file = LedgerFile(self._directory, FOLDER)
        self._loaded: Ledger | None = None

    def open(self, *, overwrite: bool, dry_run: bool) -> Ledger:
        """The ledger of the directory: that of earlier runs, or a new one.

        What an earlier run has written and not moved is moved, what it did not finish is forgotten.

        Raises:
            OptionError: the directory is that of other rows, or of something else.
            JobError: the file system refuses, or another run is at work.
        """
        kept = self._landing.kept_settings()
        self._loaded = None if overwrite else self._file.load(self._landing.job, kept)
        if self._loaded is None and not overwrite and self._directory.names():
            raise OptionError(
                f"{self._directory} exists already and is not from `pocketmq "
                f"{self._landing.job}`: take another directory, or replace it (--overwrite)"
            )
        ledger = self._loaded or Ledger(job=self._landing.job, settings=kept)
        if (part := ledger.open_slice) is not None:
            if not dry_run and part.rows is not None:
                self._move(part)
            if part.rows is None:
                ledger.open_slice = None
            else:
                ledger.finish_slice()
            if not dry_run:
                self._file.save(ledger)
                self._directory.delete(f"{FOLDER}/{_slice_name(part.number)}")
        return ledger

    @property
    def is_first(self) -> bool:
        """Whether nothing was written here before."""
        return self._loaded is None

    def write(
        self,
        ledger: Ledger,
        ranges: Iterable[Range],
        queues: Iterable[MessageQueue],
        *,
        overwrite: bool,
        progress: bool,
    ) -> int:
        """Writes ranges; returns how many messages there were.

        Raises:
            JobError: Spark or the file system fails, or another run is at work.
        """
        if overwrite:
            self._directory.delete()
        before = ledger.rows
        parts = slices(ranges, self._landing.slice_rows)
        total = sum(r.size for part in parts for r in part)
        title = f"{self._landing.job} {','.join(self._landing.topics)}"
        self._file.save(ledger)  # also tells whether another run is at work
        rows = JobRows(self._spark)
        with shown(self._spark, title, rows, is_wanted=progress, rows_total=total):
            for part in parts:
                self._write_slice(ledger, part, queues)
        return ledger.rows - before

    def tell_lost(self, ledger: Ledger) -> list[Range]:
        """What was lost since a run has said so; from here on it is said."""
        lost = list(Spans.of(ledger.untold))
        if lost:
            ledger.untold = {}
            self._file.save(ledger)
        return lost

    def _write_slice(
        self, ledger: Ledger, ranges: Sequence[Range], queues: Iterable[MessageQueue]
    ) -> None:
        part = OpenSlice(number=ledger.slices + 1, ranges={})
        ledger.open_slice = part
        folder = f"{FOLDER}/{_slice_name(part.number)}"
        for losses_left in reversed(range(LOSSES_MAX)):
            part.ranges = Spans(ranges).table()
            self._file.save(ledger)
            self._directory.delete(folder)
            if not ranges:
                part.rows = 0
                break
            try:
                part.rows = self._write_files(ranges, queues, self._directory.place(folder))
                break
            except JobError as e:
                lost = self._lost(ranges, e) if losses_left else []
                if not lost:
                    raise
                ledger.book_lost(lost)
                ranges = Spans(lost).missing_of(ranges)
        self._file.save(ledger)
        self._move(part)
        self._directory.delete(folder)
        ledger.finish_slice()
        self._file.save(ledger)

    def _lost(self, ranges: Sequence[Range], failure: JobError) -> list[Range]:
        """What retention has deleted of ranges whose read has failed."""
        try:
            return gone(ranges, self._ends())
        except OperatingError:
            raise failure from None  # nothing can be asked: that is why

    def _write_files(
        self, ranges: Sequence[Range], queues: Iterable[MessageQueue], folder: str
    ) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        seen = Observation()
        settings = {**self._read_settings, **offset_options(ranges, queues)}
        places = sorted(place_name(r.queue) for r in ranges)
        what = f"writing {','.join(self._landing.topics)} to {self._directory}"
        with job(what):
            messages = self._spark.read.format(FORMAT).options(**settings).load()
            # A queue that is new since the plan was made would be read as a whole.
            known = messages.where(place_column().isin(places))
            counted = known.observe(seen, sf.count(sf.lit(1)).alias("rows"))
            dated = _fitting(counted, self._landing).withColumn(
                DAY, day_column("storeTimestamp", self._landing.timezone)
            )
            target = dated.write.format(self._landing.format).partitionBy(DAY)
            if self._landing.format == "csv":
                target = target.option("header", "true")
            target.save(folder)
            return int(seen.get["rows"])

    def _move(self, part: OpenSlice) -> None:
        folder = f"{FOLDER}/{_slice_name(part.number)}"
        for day in self._directory.names(folder):
            if not day.startswith(f"{DAY}="):
                continue
            for name in self._directory.names(f"{folder}/{day}"):
                self._directory.move(
                    f"{folder}/{day}/{name}", f"{day}/{_slice_name(part.number)}-{name}"
                )


def _slice_name(number: int) -> str:
    return f"slice-{number:05}"


def place_name(queue: MessageQueue) -> str:
    """A queue in one word, as `place_column` gives it."""
    return f"{queue.topic}@{queue.broker_name}:{queue.queue_id}"


def place_column() -> Column:
    """The queue of a message in one word."""
    from pyspark.sql import functions as sf

    return sf.concat("topic", sf.lit("@"), "brokerName", sf.lit(":"), "queueId")


def day_column(timestamp: str, timezone: str) -> Column:
    """The day of a time in a time zone, whatever the session's own zone."""
    from pyspark.sql import functions as sf

    local = sf.from_utc_timestamp(timestamp, timezone)
    return sf.date_from_unix_date(sf.floor(sf.unix_millis(local) / DAY_MS).cast("int"))


def _fitting(messages: DataFrame, landing: Landing) -> DataFrame:
    """The messages in types that the format has."""
    from pyspark.sql import functions as sf

    if landing.value_as_text or landing.format in TEXT_FORMATS:
        messages = messages.withColumn("value", sf.col("value").cast("string"))
    if landing.format == "csv" and "properties" in messages.columns:
        messages = messages.withColumn("properties", sf.to_json("properties"))
    return messages
