"""Which offsets of which queues: sets of ranges, what is missing in them, and their slices."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.reading.offsets import EARLIEST, Range

Table = dict[str, dict[str, dict[str, list[tuple[int, int]]]]]
"""Ranges as they are kept: topic, broker, queue, then pairs of an offset and an end (exclusive)."""


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
        """The parts of a range that are not in the set."""
        parts, following = [], whole.start
        for start, end in self._by_queue.get(whole.queue, []):
            if start > following and following < whole.end:
                parts.append(Range(whole.queue, following, min(start, whole.end)))
            following = max(following, end)
        if following < whole.end:
            parts.append(Range(whole.queue, following, whole.end))
        return parts

    def missing_of(self, ranges: Iterable[Range]) -> list[Range]:
        """The parts of some ranges that are not in the set."""
        return [part for r in ranges for part in self.missing(r)]

    def end(self, queue: MessageQueue) -> int:
        """Behind the last offset of a queue; 0 without any."""
        pairs = self._by_queue.get(queue)
        return pairs[-1][1] if pairs else 0

    def table(self) -> Table:
        """As it is kept."""
        out: Table = {}
        for queue, pairs in sorted(self._by_queue.items()):
            brokers = out.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = list(pairs)
        return out

    @classmethod
    def of(cls, table: Mapping[str, Mapping[str, Mapping[str, Sequence[Sequence[int]]]]]) -> Spans:
        """From what is kept."""
        return cls(
            Range(MessageQueue(topic, broker, int(queue_id)), start, end)
            for topic, brokers in table.items()
            for broker, queues in brokers.items()
            for queue_id, pairs in queues.items()
            for start, end in pairs
        )


def slices(ranges: Iterable[Range], rows_max: int) -> list[list[Range]]:
    """Ranges in portions of about so many messages, each with its share of every queue.

    A portion has one range of a queue at the most, and later ones follow earlier ones.
    """
    rounds: list[list[Range]] = []
    seen: dict[MessageQueue, int] = {}
    for r in sorted(ranges):
        turn = seen.get(r.queue, 0)
        seen[r.queue] = turn + 1
        if turn == len(rounds):
            rounds.append([])
        rounds[turn].append(r)
    out = []
    for whole in rounds:
        parts = max(1, -(-sum(r.size for r in whole) // rows_max))
        for i in range(parts):
            cut = [
                Range(r.queue, r.start + r.size * i // parts, r.start + r.size * (i + 1) // parts)
                for r in whole
            ]
            out.append([r for r in cut if r.size])
    return [part for part in out if part]


def offset_options(ranges: Sequence[Range], queues: Iterable[MessageQueue]) -> dict[str, str]:
    """Options of a read that gives these ranges: other queues of their topics give nothing.

    Args:
        ranges: one of a queue at the most.
        queues: all of the topics.
    """
    bounds: list[dict[str, dict[str, dict[str, int]]]] = [{}, {}]
    places = {r.queue: (r.start, r.end) for r in ranges}
    topics = {r.queue.topic for r in ranges}
    for queue in {*places, *(q for q in queues if q.topic in topics)}:
        pair = places.get(queue, (EARLIEST, EARLIEST))
        for table, offset in zip(bounds, pair, strict=True):
            brokers = table.setdefault(queue.topic, {})
            brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offset
    return {
        "subscribe": ",".join(sorted(topics)),
        "startingOffsets": json.dumps(bounds[0]),
        "endingOffsets": json.dumps(bounds[1]),
    }
