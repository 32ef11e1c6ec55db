"""Sets of offsets of queues: what is missing in them, and the slices into which they are cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.queue_tables import queue_table, queue_values
from pocketmq.spark.reading.offsets import Range

Table = dict[str, dict[str, dict[int, list[tuple[int, int]]]]]
"""Ranges as ledgers keep them: by queue, pairs of an offset and an end (exclusive)."""


class Spans:
    """A set of offsets of queues; ranges that touch are one."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._by_queue: dict[MessageQueue, list[tuple[int, int]]] = {}
        for r in ranges:
            self.add(r)

    def __iter__(self) -> Iterator[Range]:
        for queue, pairs in sorted(self._by_queue.items()):
            for start, end in pairs:
                yield Range(queue, start, end)

    def __bool__(self) -> bool:
        return bool(self._by_queue)

    @property
    def size(self) -> int:
        """How many offsets."""
        return sum(end - start for pairs in self._by_queue.values() for start, end in pairs)

    def add(self, added: Range) -> None:
        """Takes a range in."""
        if added.start >= added.end:
            return
        merged: list[tuple[int, int]] = []
        for start, end in sorted([*self._by_queue.get(added.queue, []), (added.start, added.end)]):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        self._by_queue[added.queue] = merged

    def missing(self, whole: Range) -> list[Range]:
        """Returns the parts of a range that are not in the set."""
        parts, following = [], whole.start
        for start, end in self._by_queue.get(whole.queue, []):
            if start > following and following < whole.end:
                parts.append(Range(whole.queue, following, min(start, whole.end)))
            following = max(following, end)
        if following < whole.end:
            parts.append(Range(whole.queue, following, whole.end))
        return parts

    def missing_of(self, ranges: Iterable[Range]) -> list[Range]:
        """Returns the parts of some ranges that are not in the set."""
        return [part for r in ranges for part in self.missing(r)]

    def end(self, queue: MessageQueue) -> int:
        """Returns the offset behind the last one of a queue; 0 without any."""
        pairs = self._by_queue.get(queue)
        return pairs[-1][1] if pairs else 0

    def table(self) -> Table:
        """Returns the set as a ledger keeps it."""
        return queue_table((queue, list(pairs)) for queue, pairs in sorted(self._by_queue.items()))

    @classmethod
    def of(cls, table: Table) -> Spans:
        """Makes a set of what a ledger keeps."""
        return cls(
            Range(queue, start, end) for queue, pairs in queue_values(table) for start, end in pairs
        )


def slices(ranges: Iterable[Range], rows_max: int) -> list[list[Range]]:
    """Cuts ranges into slices of about `rows_max` messages, each with a part of every queue.

    A slice has one range of a queue at the most, and later ones follow earlier ones.
    """
    rounds: dict[int, list[Range]] = defaultdict(list)
    ranges_of: dict[MessageQueue, int] = defaultdict(int)
    for r in sorted(ranges):
        rounds[ranges_of[r.queue]].append(r)
        ranges_of[r.queue] += 1
    out = []
    for whole in rounds.values():
        parts = max(1, -(-sum(r.size for r in whole) // rows_max))
        for i in range(parts):
            cut = [
                Range(r.queue, r.start + r.size * i // parts, r.start + r.size * (i + 1) // parts)
                for r in whole
            ]
            out.append([r for r in cut if r.size])
    return [part for part in out if part]
