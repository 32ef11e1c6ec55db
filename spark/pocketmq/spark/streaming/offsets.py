"""Where a stream stands: offsets as they lie in Spark's checkpoint, and how far a batch may go.

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
    """What a checkpoint says.

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
        """Out of what Spark kept."""
        tables = {n: table for n, table in json.items() if n not in (STARTS, FIRST, COMMITS)}
        starts = dict(queue_values(json.get(STARTS, {})))
        is_first, has_commits = bool(json.get(FIRST)), bool(json.get(COMMITS))
        return cls(dict(queue_values(tables)), starts, is_first, has_commits)

    def encode(self) -> dict[str, Any]:
        """As Spark keeps it: sorted, because it compares texts."""
        json = _tables(self.offsets)
        if self.starts:
            json[STARTS] = _tables(self.starts)
        if self.is_first:
            json[FIRST] = True
        if self.has_commits:
            json[COMMITS] = True
        return json

    def of_topic(self, topic: str) -> Offsets:
        """The offsets of one topic."""
        return {q: offset for q, offset in self.offsets.items() if q.topic == topic}

    def without_topic(self, topic: str) -> Position:
        """The position but for one topic."""
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
    """What the batch between two positions reads, sorted by queue: always the same.

    Queues of which nobody knows where they begin are left out; see `unknown_starts`.
    """
    known = {**start.offsets, **end.starts}
    return [
        Range(queue, known[queue], last)
        for queue, last in sorted(end.offsets.items())
        if queue in known and known[queue] < last
    ]


def unknown_starts(start: Position, end: Position) -> list[MessageQueue]:
    """Queues of a batch that it does not say the beginning of.

    Before Spark 4.2 a stream is not told where it stands when it says how far it goes.
    """
    return sorted(end.offsets.keys() - start.offsets.keys() - end.starts.keys())


def spread(backlogs: Mapping[MessageQueue, int], rows_max: int) -> Offsets:
    """How many messages of each queue a batch takes: in proportion to what waits there.

    No queue with a backlog is left out: each gets one, though that be more than the limit.

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
