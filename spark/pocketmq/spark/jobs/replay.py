"""Sends messages again: from Parquet or a topic, to where they came from or another topic.

``spark-submit replay.py %DLQ%billing`` does the same as ``pocketmq replay``.

A replay has a checkpoint, in which a ledger says which messages were sent. They are sent in slices.
Before a slice the ledger books where its target topics end; if the slice is cut off, the next run
reads what came into them since, and leaves out what bears the marks of this replay.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pocketmq.runtime.clock import SystemClock
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.command_line import JobParser
from pocketmq.spark.jobs.failures import job
from pocketmq.spark.jobs.files.directory import Directory
from pocketmq.spark.jobs.files.ledger import FOLDER, Ledger, LedgerFile, OpenSlice
from pocketmq.spark.jobs.options import JobOptions, check_slices_and_times, refuse_own
from pocketmq.spark.jobs.progress import shown
from pocketmq.spark.jobs.replaying.rows import TARGET, check_edits, rows_to_send
from pocketmq.spark.jobs.replaying.sending import ReplaySending
from pocketmq.spark.jobs.replaying.sources import (
    TopicMessages,
    TopicSource,
    is_directory,
    open_files,
    topic_messages,
)
from pocketmq.spark.jobs.reports import ReplayReport, Route
from pocketmq.spark.jobs.spans import Spans, slices
from pocketmq.spark.options import write_options
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.session import job_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pocketmq.spark.jobs.replaying.sources import ReplaySource

JOB = "replay"
SLICE_ROWS = 100_000
SLICE_S = 30
"""How long a slice takes at the most when there is a rate: the ledger follows that often."""

OWN_WRITE_OPTIONS = {"topic", "subscribe", "namesrvaddr", "writerid", "markrows", "rowspersecond"}

OWN_READ_OPTIONS = {"includeproperties", "includeheaders"}
CHANGEABLE = {"failondataloss"}
"""Options of a read that may differ from run to run of the same replay."""

SAMPLES = 5
SAMPLE_CHARACTERS = 60


@dataclass(frozen=True)
class ReplayOptions(JobOptions):
    """Which messages are sent again, where to, and how fast.

    Attributes:
        source: a topic, such as ``%DLQ%group``, or a directory that `export` or `archive` wrote.
        topic: where all goes; by default each message goes where it came from.
        to_namesrv: the name servers of the cluster that is sent to, if it is another one.
        where: a condition in Spark's SQL over the columns of a read.
        columns: new values by column (value, keys, tags, shardingKey, properties, topic), in
            Spark's SQL over the columns of a read.
        rate: messages a second at the most; 0 for as many as possible.
        since_ms, until_ms: messages stored at this time or later, and before that one, in
            milliseconds since the epoch.
        checkpoint: a directory that says what was sent; by default one of this user's.
        restart: forget what was sent.
        reader_options: further options of a topic's read, such as dropRepeats.
        writer_options: further options of the write, such as createTopicQueues.
        slice_rows: messages between two entries in the checkpoint, at the most.
    """

    source: str
    topic: str | None = None
    to_namesrv: str | None = None
    where: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    rate: int = 0
    since_ms: int | None = None
    until_ms: int | None = None
    checkpoint: str | None = None
    restart: bool = False
    reader_options: Mapping[str, str] = field(default_factory=dict)
    writer_options: Mapping[str, str] = field(default_factory=dict)
    slice_rows: int = SLICE_ROWS

    def kept_settings(self) -> dict[str, str]:
        """Returns the settings by which the checkpoint of this replay is found again."""
        settings = {
            "source": self.source,
            "namesrv": self.namesrv or os.environ.get("NAMESRV_ADDR", ""),
            "toNamesrv": self.to_namesrv or "",
            "topic": self.topic or "",
            "where": self.where or "",
            **{f"set {name}": text for name, text in sorted(self.columns.items())},
            **{
                f"option {name}": text
                for name, text in sorted(self.reader_options.items())
                if name.lower() not in CHANGEABLE
            },
        }
        return {name: value for name, value in settings.items() if value}

    def write_settings(self) -> dict[str, str]:
        """Returns the options of the data source's write, without topics."""
        settings = dict(self.writer_options)
        namesrv = self.to_namesrv or self.namesrv
        if namesrv is not None:
            settings["namesrvAddr"] = namesrv
        return settings

    def check(self) -> None:
        """Checks that the options fit each other.

        Raises:
            OptionError: they do not.
        """
        check_edits(self.columns)
        refuse_own(self.reader_options, OWN_READ_OPTIONS)
        refuse_own(self.writer_options, OWN_WRITE_OPTIONS)
        write_options(self.write_settings())
        check_slices_and_times(self.slice_rows, self.since_ms, self.until_ms)
        if self.rate < 0:
            raise OptionError(f"a rate is at least 1 message a second, not {self.rate}")


def replay(options: ReplayOptions, spark: SparkSession | None = None) -> ReplayReport:
    """Sends messages again; what an earlier run of the same replay sent is left out.

    Args:
        options: what is sent, and where to.
        spark: the session; by default the active one, else a local one that is stopped at the end.

    Raises:
        OptionError: the options do not fit.
        MissingTopicError: a topic does not exist.
        RequirementError: PySpark, PyArrow or Java is missing.
        JobError: the job failed, or nothing tells where a message is to go; it holds the reason.
    """
    options.check()
    found = None
    if not is_directory(options.source):
        found = topic_messages(
            options.source,
            options.namesrv,
            options.reader_options,
            options.since_ms,
            options.until_ms,
        )
        _check_leads_elsewhere(options, found)
    elif options.reader_options:
        names = ", ".join(sorted(options.reader_options))
        raise OptionError(
            f"{names}: options of a topic's read, but {options.source} is a directory"
        )
    registers = not options.dry_run
    with job_session("pocketmq replay", options.cores, spark, registers=registers) as session:
        source = (
            open_files(
                session,
                options.source,
                options.since_ms,
                options.until_ms,
                needs_bodies="value" not in options.columns,
            )
            if found is None
            else TopicSource(session, found)
        )
        return _Replay(session, options, source).run()


def _check_leads_elsewhere(options: ReplayOptions, found: TopicMessages) -> None:
    """Refuses a replay onto itself before Spark starts, where that is sure.

    Raises:
        JobError: messages would be sent to the topic where they are.
    """
    is_other_cluster = options.to_namesrv not in (None, found.read.namesrv_addr)
    is_chosen = options.where is not None or found.read.filter or found.read.drop_repeats
    if is_other_cluster or is_chosen or TARGET in options.columns:
        return
    if (stays := found.first_that_stays(options.topic)) is not None:
        topic = stays.queue.topic
        rows = sum(r.size for r in found.ranges if r.queue.topic == topic)
        raise JobError(
            f"replay of {options.source}",
            f"up to {rows:,} messages would go where they are, to {topic} (the first is "
            f"{stays.queue}:{stays.start}): name another topic (--topic)",
        )


class _Replay:
    """One run of a replay."""

    def __init__(self, spark: SparkSession, options: ReplayOptions, source: ReplaySource) -> None:
        self._spark, self._options, self._source = spark, options, source
        place = options.checkpoint or default_checkpoint(options)
        self._directory = Directory(spark, place)
        self._file = LedgerFile(self._directory)
        self._routes: Counter[tuple[str, str]] = Counter()
        self._lost: tuple[Range, ...] = ()
        self._rows_done = 0
        self._clock = SystemClock()

    def run(self) -> ReplayReport:
        started = self._clock.monotonic()
        ledger = self._ledger()
        done = Spans.of(ledger.done)
        ranges = done.missing_of(self._source.ranges)
        samples: list[dict[str, Any]] = []
        if self._options.dry_run:
            samples = self._plan(ledger, ranges)
        else:
            self._file.save(ledger)
            self._send_all(ledger, ranges)
        return ReplayReport(
            source=self._options.source,
            routes=tuple(Route(*pair, rows) for pair, rows in sorted(self._routes.items())),
            messages_read=sum(r.size for r in ranges),
            seconds=self._clock.monotonic() - started,
            checkpoint=str(self._directory),
            is_dry=self._options.dry_run,
            lost=self._lost,
            samples=tuple(samples),
        )

    def _ledger(self) -> Ledger:
        settings = self._options.kept_settings()
        if self._options.restart and not self._options.dry_run:
            self._directory.delete(FOLDER)
        elif not self._options.restart and (kept := self._file.load(JOB, settings)) is not None:
            return kept
        return Ledger(job=JOB, settings=settings, id=secrets.token_hex(8))

    def _plan(self, ledger: Ledger, ranges: Sequence[Range]) -> list[dict[str, Any]]:
        """Counts how many messages would go where; returns samples of them."""
        if not ranges:
            return []
        from pyspark.sql import functions as sf

        with job(f"reading {self._options.source}"):
            for part in slices(ranges, sys.maxsize):
                rows = self._rows(ledger, part)
                self._count(rows)
            text = sf.substring(sf.col("value").cast("string"), 1, SAMPLE_CHARACTERS)
            shown_rows = rows.select("place", "topic", "keys", "tags", text.alias("value"))
            return [row.asDict() for row in shown_rows.limit(SAMPLES).collect()]

    def _send_all(self, ledger: Ledger, ranges: Sequence[Range]) -> None:
        rows_max = self._options.slice_rows
        if self._options.rate:
            rows_max = min(rows_max, self._options.rate * SLICE_S)
        sending = ReplaySending(
            self._spark,
            self._options.write_settings(),
            ledger.id,
            self._options.rate,
            self._clock,
        )
        parts: list[list[Range]] = []
        if (cut_off := ledger.open_slice) is not None:
            begun = Spans.of(cut_off.ranges)
            parts.append(list(begun))
            ranges = begun.missing_of(ranges)
        parts += slices(ranges, rows_max)
        with shown(
            self._spark,
            f"replay {self._options.source}",
            lambda _: self._rows_done,
            is_wanted=self._options.progress,
            rows_total=sum(r.size for part in parts for r in part),
        ):
            for part in parts:
                self._send_slice(sending, ledger, part)
                self._rows_done += sum(r.size for r in part)

    def _send_slice(self, sending: ReplaySending, ledger: Ledger, ranges: Sequence[Range]) -> None:
        """Sends a slice, or the rest of the one that the ledger has open."""
        part = ledger.open_slice or OpenSlice(
            number=ledger.slices + 1, ranges=Spans(ranges).table()
        )
        sent: set[str] = set()
        with job(f"replaying {self._options.source}"):
            part.attempts += 1
            if ledger.open_slice is not None:
                self._file.save(ledger)  # no other run has an attempt of this number
                sent = sending.recover(part)
                ranges = self._left(ranges, sent)
            ledger.open_slice = part
            if ranges:
                self._send_rows(sending, ledger, ranges, sent)
            ledger.finish_slice()
            self._file.save(ledger)

    def _send_rows(
        self, sending: ReplaySending, ledger: Ledger, ranges: Sequence[Range], sent: set[str]
    ) -> None:
        part = ledger.open_slice
        assert part is not None
        rows = self._rows(ledger, ranges).persist()
        try:
            unsent = sending.without(rows, sent)
            groups = self._count(unsent)
            new = {topic for topic, _ in groups} - part.target_ends.keys()
            part.target_ends = {**sending.ends(new), **part.target_ends}
            self._file.save(ledger)
            counts: Counter[bool] = Counter()
            for (_, is_keyed), count in groups.items():
                counts[is_keyed] += count
            sending.send(unsent, part.number, counts)
            part.rows = sum(counts.values())
        finally:
            rows.unpersist()

    def _left(self, ranges: Sequence[Range], sent: set[str]) -> list[Range]:
        """Returns what a cut-off slice has left to send; notes what was deleted unsent."""
        gone = self._source.deleted_of(ranges)
        self._lost = tuple(
            Spans(
                Range(r.queue, offset, offset + 1)
                for r in gone
                for offset in range(r.start, r.end)
                if f"{r.queue}:{offset}" not in sent
            )
        )
        return Spans(gone).missing_of(ranges)

    def _rows(self, ledger: Ledger, ranges: Sequence[Range]) -> DataFrame:
        options = self._options
        return rows_to_send(
            self._source.messages(ranges),
            ledger.id,
            to_topic=options.topic,
            where=options.where,
            columns=options.columns,
        )

    def _count(self, rows: DataFrame) -> dict[tuple[str, bool], int]:
        """Counts rows by target and by whether they have a sharding key; adds up the routes.

        Raises:
            JobError: nothing tells where a row is to go, or it would go where it came from.
        """
        from pyspark.sql import functions as sf

        keyed = sf.col("shardingKey").isNotNull().alias("keyed")
        first = sf.min("place").alias("first")
        groups: Counter[tuple[str, bool]] = Counter()
        what = f"replay of {self._options.source}"
        counted = rows.groupBy("source", "topic", keyed).agg(sf.count("*").alias("rows"), first)
        for row in counted.collect():
            if row.topic is None:
                raise JobError(
                    what,
                    f"{row.rows:,} messages do not tell where they came from (the first is "
                    f"{row.first}): name a topic for all (--topic), or leave them out (--where)",
                )
            if row.topic == row.source and self._source.is_in_the_target_cluster(
                self._options.to_namesrv
            ):
                raise JobError(
                    what,
                    f"{row.rows:,} messages would go where they are, to {row.topic} (the first "
                    f"is {row.first}): name another topic (--topic)",
                )
            self._routes[row.source, row.topic] += row.rows
            groups[row.topic, row.keyed] += row.rows
        return groups


def default_checkpoint(options: ReplayOptions) -> str:
    """Names the directory in which a replay of this user is booked."""
    text = json.dumps(options.kept_settings(), sort_keys=True)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return (Path(state) / "pocketmq" / "replay" / name).absolute().as_uri()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the replay that a command line asks for; returns the exit code."""
    parser = JobParser("Send messages again, from Parquet or a topic.")
    parser.add_argument("source", help="a topic, or a directory that export or archive wrote")
    parser.add_argument("--topic", help="where to; default: where each message came from")
    parser.add_argument("--to-namesrv", help="of the cluster that is sent to, if another one")
    parser.add_argument("--where", help="a condition in Spark's SQL over the columns of a read")
    parser.add_pairs("--set", "columns", "column=expression in Spark's SQL; repeatable")
    parser.add_argument("--rate", type=int, default=0, help="messages a second at the most")
    parser.add_instant("--since", "messages stored at this time or later")
    parser.add_instant("--until", "messages stored before this time")
    parser.add_argument("--checkpoint", help="directory that says what was sent")
    parser.add_argument("--restart", action="store_true", help="forget what was sent")
    parser.add_argument("--slice-rows", type=int, default=SLICE_ROWS)
    parser.add_further("--read", "reader_options", "topic's read")
    parser.add_further("--write", "writer_options", "write")
    return parser.run(arguments, lambda given: replay(ReplayOptions(**given)))


if __name__ == "__main__":
    sys.exit(main())
