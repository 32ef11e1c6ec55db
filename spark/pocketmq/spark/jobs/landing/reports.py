"""What jobs on ranges of queues say at their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pocketmq.spark.reading.offsets import Range

EXIT_GAPS = 3
"""The job is done, but messages that it was to take are not there any more."""


def told(lost: Sequence[Range]) -> str:
    """What was lost, in words behind others; nothing if that is none."""
    if not lost:
        return ""
    places = ", ".join(f"{r.queue} {r.start} to {r.end}" for r in lost)
    gone = sum(r.size for r in lost)
    return f"; {gone:,} messages were gone before they could be read: {places}"


def _place(r: Range) -> dict[str, Any]:
    return {"topic": r.queue.topic, "broker": r.queue.broker_name, "queue": r.queue.queue_id}


@dataclass(frozen=True, kw_only=True)
class RangeReport:
    """What was written of which queues.

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

    @property
    def rows_per_s(self) -> float:
        """Rows in a second."""
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    @property
    def exit_code(self) -> int:
        """Of the command: 0, or `EXIT_GAPS`."""
        return EXIT_GAPS if self.lost else 0

    def __str__(self) -> str:
        planned = sum(r.size for r in self.ranges)
        if not planned:
            text = f"nothing new in {self.topic}"
        elif self.is_dry:
            text = f"{planned:,} messages would be written to {self.to_dir}"
        else:
            text = f"{self.rows:,} rows in {self.seconds:.1f} s, {self.rows_per_s:,.0f} rows/s"
        return text + told(self.lost)

    def queue_rows(self) -> list[dict[str, Any]]:
        """A line for each queue: what was taken, and what was lost."""
        found = [
            *(("taken", r) for r in self.ranges),
            *(("lost", r) for r in self.lost),
        ]
        return [
            {
                **_place(r),
                "from": r.start,
                "to": r.end,
                "messages": r.size,
                "state": "planned" if self.is_dry and state == "taken" else state,
            }
            for state, r in sorted(found, key=lambda pair: pair[1])
        ]

    def document(self) -> dict[str, Any]:
        """The whole report, for JSON."""
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
class ReplayReport:
    """What was sent again.

    Attributes:
        source: what from.
        routes: how many messages went where; what would go where by a dry run.
        messages_read: offsets that were looked through; the filter passed over the others.
        seconds: from the start of the job to its end, without the start of Spark.
        checkpoint: where it is booked what was sent.
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
    def rows(self) -> int:
        """Messages sent; those that would be sent, by a dry run."""
        return sum(route.messages for route in self.routes)

    @property
    def exit_code(self) -> int:
        """Of the command: 0, or `EXIT_GAPS`."""
        return EXIT_GAPS if self.lost else 0

    def __str__(self) -> str:
        if not self.messages_read:
            text = f"nothing new in {self.source} since the last run ({self.checkpoint})"
        elif self.is_dry:
            text = f"{self.rows:,} of {self.messages_read:,} messages would be sent"
        else:
            rate = self.rows / self.seconds if self.seconds > 0 else 0.0
            text = (
                f"{self.rows:,} of {self.messages_read:,} messages sent in {self.seconds:.1f} s, "
                f"{rate:,.0f} a second"
            )
        return text + told(self.lost)

    def route_rows(self) -> list[dict[str, Any]]:
        """A line for each pair of topics."""
        return [
            {"from": route.source, "to": route.target, "messages": route.messages}
            for route in self.routes
        ]

    def document(self) -> dict[str, Any]:
        """The whole report, for JSON."""
        return {
            "job": "replay",
            "source": self.source,
            "dryRun": self.is_dry,
            "rows": self.rows,
            "messagesRead": self.messages_read,
            "seconds": round(self.seconds, 3),
            "checkpoint": self.checkpoint,
            "routes": self.route_rows(),
            "lost": [
                {**_place(r), "from": r.start, "to": r.end, "messages": r.size} for r in self.lost
            ],
            "samples": list(self.samples),
        }
