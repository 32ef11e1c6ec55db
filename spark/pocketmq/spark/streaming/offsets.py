"""Positions of a stream: offsets as they lie in Spark's checkpoint, and the batches between them.

As JSON a position is ``{"topic": {"broker": {"queue": offset}}}``, what startingOffsets takes. A
batch may begin elsewhere than where the last one ended: the first one, a queue that is new, one
whose messages are gone. Such beginnings stand in the batch's end, under `STARTS`: Spark keeps the
end of a batch before it runs it, but not where the query itself began, so a first batch that is run
again after a crash would otherwise ask for the offsets of that later time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.queue_tables import queue_table, queue_values
from pocketmq.spark.reading.offsets import Range

STARTS = "$starts"
"""No topic has such a name."""

FIRST = "$first"
"""Marks the position at which a query began."""

COMMITS = "$commits"
"""Marks a position that counts the commit topic, too: the stream drops repeats."""

Offsets = dict[MessageQueue, int]


class Position(NamedTuple):
    """A position of a stream, as a checkpoint holds it.

    Attributes:
        offsets: the next offset of each queue.
        starts: where the batch that ends here began, for queues that it did not continue.
        is_first: the query began here.
        has_commits: the queues of the commit topic are among them.
    """

    offsets: Offsets
    starts: Offsets
    is_first: bool = False
    has_commits: bool = False

    @classmethod
    def decode(cls, json: Mapping[str, Any]) -> Position:
        """Reads a position that Spark kept."""
        tables = {n: table for n, table in json.items() if n not in (STARTS, FIRST, COMMITS)}
        starts = dict(queue_values(json.get(STARTS, {})))
        is_first, has_commits = bool(json.get(FIRST)), bool(json.get(COMMITS))
        return cls(dict(queue_values(tables)), starts, is_first, has_commits)

    def encode(self) -> dict[str, Any]:
        """Returns the position as Spark keeps it: sorted, because Spark compares texts."""
        json = _tables(self.offsets)
        if self.starts:
            json[STARTS] = _tables(self.starts)
        if self.is_first:
            json[FIRST] = True
        if self.has_commits:
            json[COMMITS] = True
        return json

    def of_topic(self, topic: str) -> Offsets:
        """Returns the offsets of one topic."""
        return {q: offset for q, offset in self.offsets.items() if q.topic == topic}

    def without_topic(self, topic: str) -> Position:
        """Returns the position without one topic."""
        offsets, starts = (
            {q: offset for q, offset in table.items() if q.topic != topic}
            for table in (self.offsets, self.starts)
        )
        return Position(offsets, starts, self.is_first)


def _tables(offsets: Offsets) -> dict[str, Any]:
    table = queue_table((queue, offsets[queue]) for queue in sorted(offsets))
    of_texts: dict[str, Any] = msgspec.to_builtins(table, str_keys=True)
    return of_texts


def batch_ranges(start: Position, end: Position) -> list[Range]:
    """Returns the ranges of the batch between two positions, sorted by queue: always the same.

    Queues without a known beginning are left out; see `unknown_starts`.
    """
    known = {**start.offsets, **end.starts}
    return [
        Range(queue, known[queue], last)
        for queue, last in sorted(end.offsets.items())
        if queue in known and known[queue] < last
    ]


def unknown_starts(start: Position, end: Position) -> list[MessageQueue]:
    """Returns the queues of a batch whose beginning neither position names.

    Before 4.2 Spark asks where a batch ends without saying where it begins.
    """
    return sorted(end.offsets.keys() - start.offsets.keys() - end.starts.keys())


def spread(backlogs: Mapping[MessageQueue, int], rows_max: int) -> Offsets:
    """Spreads a batch over the queues, in proportion to the messages that wait in each.

    No queue with a backlog is left out: each gets one, even if the sum exceeds the limit.

    Args:
        backlogs: messages that wait, at least one each.
        rows_max: of the batch.
    """
    waiting = sum(backlogs.values())
    if waiting <= rows_max:
        return dict(backlogs)
    taken = dict.fromkeys(backlogs, 1)
    left, more = rows_max - len(backlogs), waiting - len(backlogs)
    if left <= 0:
        return taken
    remainders = {}
    for queue, backlog in backlogs.items():
        share, remainders[queue] = divmod((backlog - 1) * left, more)
        taken[queue] += share
    rest = rows_max - sum(taken.values())
    for queue in sorted(remainders, key=lambda q: (-remainders[q], q))[:rest]:
        taken[queue] += 1
    return taken
