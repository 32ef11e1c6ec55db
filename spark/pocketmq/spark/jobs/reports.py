"""What jobs report at their end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pocketmq.runtime.text import counted
from pocketmq.spark.reading.offsets import Range

EXIT_GAPS = 3
"""The job is done, but messages that it was to take are not there any more."""

NAMED_MAX = 10
"""Files without rows that the line of an ingest names; the JSON document names all."""


class Report(ABC):
    """What a job reports at its end; in one line as a text.

    Attributes:
        rows: how many messages were written or sent.
        seconds: from the start of the job to its end, without the start of Spark.
        lost: offsets that were to be taken and are not there any more.
    """

    rows: int
    seconds: float
    lost: tuple[Range, ...] = ()

    @property
    def rows_per_s(self) -> float:
        """Rows in a second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def exit_code(self) -> int:
        """The exit code of the command: 0, or `EXIT_GAPS`."""
        return EXIT_GAPS if self.lost else 0

    @abstractmethod
    def document(self) -> dict[str, Any]:
        """Returns the whole report, for JSON."""


@dataclass(frozen=True)
class IngestReport(Report):
    """What was loaded.

    Attributes:
        topic: where to.
        rows: how many; rows that a repeated task sent twice are counted once.
        seconds: from the start of the job to its end, without the start of Spark.
        rows_by_queue: by ``broker:queue``.
        unconfirmed_rows: rows that are stored, but not yet flushed or replicated as the broker is
            configured.
        files_done: files that an earlier run had loaded, by the checkpoint.
        files_loaded: files that this run has loaded, by the checkpoint.
        files_without_rows: the loaded files that have no rows.
        is_dry: whether this is only what would be loaded.
    """

    topic: str
    rows: int
    seconds: float
    rows_by_queue: Mapping[str, int]
    unconfirmed_rows: int = 0
    files_done: int = 0
    files_loaded: int = 0
    files_without_rows: tuple[str, ...] = ()
    is_dry: bool = False

    def document(self) -> dict[str, Any]:
        """Returns the whole report, for JSON."""
        return {
            "job": "ingest",
            "topic": self.topic,
            "dryRun": self.is_dry,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rowsPerSecond": round(self.rows_per_s),
            "rowsByQueue": dict(self.rows_by_queue),
            "unconfirmedRows": self.unconfirmed_rows,
            "filesDone": self.files_done,
            "filesLoaded": self.files_loaded,
            "filesWithoutRows": list(self.files_without_rows),
        }

    def __str__(self) -> str:
        if self.is_dry:
            return f"{counted(self.rows, 'row')} would be loaded into topic {self.topic}"
        if self.files_done and not self.files_loaded:
            verb = "was" if self.files_done == 1 else "were"
            return f"nothing new: {counted(self.files_done, 'file')} {verb} loaded before"
        text = "nothing was loaded: the source has no rows"
        if self.rows:
            text = _rate(self) + f", {self.spread}"
        if self.files_without_rows:
            named = ", ".join(self.files_without_rows[:NAMED_MAX])
            more = len(self.files_without_rows) - NAMED_MAX
            text += (
                f"; {len(self.files_without_rows)} of {self.files_loaded} files have no rows: "
                f"{named}{f' and {more} more' if more > 0 else ''}"
            )
        if self.unconfirmed_rows:
            text += f"; {self.unconfirmed_rows:,} of them not confirmed by flush or replica"
        return text

    @property
    def spread(self) -> str:
        """How the rows lie over the queues, in words."""
        counts = self.rows_by_queue.values()
        if not counts:
            return "no queue was written"
        if len(counts) == 1:
            return "all in 1 queue"
        return f"{len(counts)} queues with {min(counts):,} to {max(counts):,} rows each"


@dataclass(frozen=True, kw_only=True)
class RangeReport(Report):
    """What an export or archive wrote of which queues.

    Attributes:
        job: which job it is.
        topic: what from; several with commas.
        to_dir: where to.
        rows: how many messages were written; none by a dry run.
        seconds: from the start of the job to its end, without the start of Spark.
        ranges: which offsets.
        lost: offsets that were to be written and are not there any more, found by this run.
        is_dry: whether this is only what would be written.
    """

    job: str
    topic: str
    to_dir: str
    rows: int
    seconds: float
    ranges: tuple[Range, ...] = ()
    lost: tuple[Range, ...] = ()
    is_dry: bool = False

    def __str__(self) -> str:
        planned = sum(r.size for r in self.ranges)
        if not planned:
            text = f"nothing new in {self.topic}"
        elif self.is_dry:
            text = f"{counted(planned, 'message')} would be written to {self.to_dir}"
        else:
            text = _rate(self)
        return text + _losses(self.lost)

    def queue_rows(self) -> list[dict[str, Any]]:
        """Returns a line for each range: taken (planned, by a dry run) or lost."""
        taken = "planned" if self.is_dry else "taken"
        found = [*((r, taken) for r in self.ranges), *((r, "lost") for r in self.lost)]
        return [
            {**_line(r), "state": state} for r, state in sorted(found, key=lambda pair: pair[0])
        ]

    def document(self) -> dict[str, Any]:
        """Returns the whole report, for JSON."""
        return {
            "job": self.job,
            "topic": self.topic,
            "to": self.to_dir,
            "dryRun": self.is_dry,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "rowsPerSecond": round(self.rows_per_s),
            "queues": self.queue_rows(),
        }


class Route(NamedTuple):
    """Messages from one topic to another."""

    source: str
    target: str
    messages: int


@dataclass(frozen=True, kw_only=True)
class ReplayReport(Report):
    """What was sent again.

    Attributes:
        source: what from.
        routes: how many messages went where; what would go where by a dry run.
        messages_read: offsets that were looked through; the filter passed over the others.
        seconds: from the start of the job to its end, without the start of Spark.
        checkpoint: the directory that says what was sent.
        is_dry: whether this is only what would be sent.
        lost: offsets that an earlier run had begun to send, and that are not there any more.
        samples: some of the messages of a dry run, as they would be sent.
    """

    source: str
    routes: tuple[Route, ...]
    messages_read: int
    seconds: float
    checkpoint: str
    is_dry: bool = False
    lost: tuple[Range, ...] = ()
    samples: tuple[dict[str, Any], ...] = ()

    @property
    def rows(self) -> int:  # type: ignore[override]
        """Messages sent; those that would be sent, by a dry run."""
        return sum(route.messages for route in self.routes)

    def __str__(self) -> str:
        if not self.messages_read:
            text = f"nothing new in {self.source} since the last run ({self.checkpoint})"
        elif self.is_dry:
            text = f"{self.rows:,} of {counted(self.messages_read, 'message')} would be sent"
        else:
            text = (
                f"{self.rows:,} of {counted(self.messages_read, 'message')} sent in "
                f"{self.seconds:.1f} s, "
                f"{self.rows_per_s:,.0f} a second"
            )
        return text + _losses(self.lost)

    def route_rows(self) -> list[dict[str, Any]]:
        """Returns a line for each pair of topics."""
        return [
            {"from": route.source, "to": route.target, "messages": route.messages}
            for route in self.routes
        ]

    def document(self) -> dict[str, Any]:
        """Returns the whole report, for JSON."""
        return {
            "job": "replay",
            "source": self.source,
            "dryRun": self.is_dry,
            "rows": self.rows,
            "messagesRead": self.messages_read,
            "seconds": round(self.seconds, 3),
            "checkpoint": self.checkpoint,
            "routes": self.route_rows(),
            "lost": [_line(r) for r in self.lost],
            "samples": list(self.samples),
        }


def _rate(report: Report) -> str:
    rows = counted(report.rows, "row")
    return f"{rows} in {report.seconds:.1f} s, {report.rows_per_s:,.0f} rows/s"


def _losses(lost: Sequence[Range]) -> str:
    """Says which messages were lost, as the end of a line; nothing if there are none."""
    if not lost:
        return ""
    ranges = ", ".join(f"{r.queue} {r.start} to {r.end}" for r in lost)
    count = sum(r.size for r in lost)
    gone = "was gone before it" if count == 1 else "were gone before they"
    return f"; {counted(count, 'message')} {gone} could be read: {ranges}"


def _line(r: Range) -> dict[str, Any]:
    """A range in a report."""
    topic, broker_name, queue_id = r.queue
    return {
        "topic": topic,
        "broker": broker_name,
        "queue": queue_id,
        "from": r.start,
        "to": r.end,
        "messages": r.size,
    }
