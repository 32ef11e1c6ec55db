"""The ranges of offsets that a read takes, and the pieces into which they are cut."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import DataLossError, OptionError, nearest
from pocketmq.spark.queue_tables import queue_table, read_table

EARLIEST, LATEST = -2, -1
"""Offsets that stand for the ends of a queue, as with Kafka."""

Ends = Mapping[MessageQueue, tuple[int, int]]
OffsetTable = dict[str, dict[str, dict[int, int]]]


class Range(NamedTuple):
    """Messages of one queue: from an offset to another, exclusive."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def size(self) -> int:
        """How many offsets the range spans."""
        return self.end - self.start


class Bound(NamedTuple):
    """One of the options startingOffsets and endingOffsets.

    Attributes:
        option: its name.
        otherwise: what stands for queues that are not named: `EARLIEST` or `LATEST`.
        table: offsets by topic, broker and queue.
        is_time: the offsets were looked up for times: those beyond the queue's ends mean the ends.
    """

    option: str
    otherwise: int
    table: OffsetTable
    is_time: bool = False

    def named(self, queue: MessageQueue) -> int | None:
        """Returns the offset that the table names for a queue; None if it names none."""
        return self.table.get(queue.topic, {}).get(queue.broker_name, {}).get(queue.queue_id)

    def within(self, queues: Collection[MessageQueue]) -> Bound:
        """Returns the bound for some queues only."""
        named = ((queue, self.named(queue)) for queue in queues)
        return self._replace(table=queue_table((q, o) for q, o in named if o is not None))

    def of(self, queue: MessageQueue, ends: Ends) -> int:
        """Returns the offset of the bound in a queue."""
        offset = self.named(queue)
        if offset is None:
            offset = self.otherwise
        least, following = ends[queue]
        if offset == EARLIEST:
            return least
        if offset == LATEST:
            return following
        return min(max(offset, least), following) if self.is_time else offset


def starting(text: str) -> Bound:
    """Reads the option startingOffsets.

    Raises:
        OptionError: it is neither `earliest` nor a table of offsets.
    """
    return _bound("startingOffsets", text, "earliest", EARLIEST)


def ending(text: str) -> Bound:
    """Reads the option endingOffsets.

    Raises:
        OptionError: it is neither `latest` nor a table of offsets.
    """
    return _bound("endingOffsets", text, "latest", LATEST)


def _bound(option: str, text: str, word: str, otherwise: int) -> Bound:
    stripped = text.strip()
    if stripped.lower() == word:
        return Bound(option, otherwise, {})
    if not stripped.startswith("{"):
        raise OptionError(
            f"option {option!r} is {text!r}: a batch read takes {word!r} or a table "
            f'{{"topic": {{"broker": {{"queue": offset}}}}}}'
        )
    table = read_table(option, stripped, OffsetTable, {"0": 23})
    by_queue = [queues for brokers in table.values() for queues in brokers.values()]
    offsets = [offset for queues in by_queue for offset in queues.values()]
    if any(o < EARLIEST for o in offsets):
        raise OptionError(
            f"option {option!r}: an offset is at least 0, or -1 for the latest, -2 for the earliest"
        )
    return Bound(option, otherwise, table)


def ranges(start: Bound, end: Bound, ends: Ends, *, fail_on_data_loss: bool) -> list[Range]:
    """Returns the range to be read of each queue; queues without messages are left out.

    Args:
        start, end: the options; the end of a stream bears no name.
        ends: the queues, and what they hold.
        fail_on_data_loss: refuse offsets that the queue does not hold any more, or not yet.

    Raises:
        OptionError: a table names a queue that is not read.
        DataLossError: see `fail_on_data_loss`.
    """
    for bound in (start, end):
        check_names(bound, ends)
    found = []
    for queue, (least, following) in ends.items():
        first, last = start.of(queue, ends), end.of(queue, ends)
        if first > last and (start.is_time or end.is_time):
            continue
        if first > last and end.option:
            raise OptionError(
                f"{queue}: {start.option} gives {first}, which is after {last} of {end.option}"
            )
        if fail_on_data_loss and (first < least or max(first, last) > following):
            raise DataLossError(str(queue), first, last, least, following)
        first, last = max(first, least), min(last, following)
        if first < last:
            found.append(Range(queue, first, last))
    return found


def check_names(bound: Bound, ends: Collection[MessageQueue]) -> None:
    """Checks that a bound names only queues that are read.

    Raises:
        OptionError: it names others.
    """
    topics = {q.topic for q in ends}
    for topic, brokers in bound.table.items():
        if topic not in topics:
            raise OptionError(
                f"option {bound.option!r} names topic {topic!r}, which is not read; "
                f"{nearest(topic, topics)}"
            )
        names = {q.broker_name for q in ends if q.topic == topic}
        for broker_name, queues in brokers.items():
            if broker_name not in names:
                raise OptionError(
                    f"option {bound.option!r} names broker {broker_name!r} of topic {topic}; "
                    f"{nearest(broker_name, names)}"
                )
            for queue_id in queues:
                if MessageQueue(topic, broker_name, queue_id) not in ends:
                    raise OptionError(
                        f"option {bound.option!r} names queue {queue_id} of topic {topic} on "
                        f"{broker_name}, which has no such queue"
                    )


def split(
    whole: Sequence[Range], min_partitions: int, max_records: int | None = None
) -> list[Range]:
    """Cuts ranges until there are enough, the longest into the most pieces.

    Args:
        whole: the ranges.
        min_partitions: how many there are to be at the least, if there are as many messages.
        max_records: offsets of a piece at the most.
    """
    if max_records:
        whole = [
            Range(r.queue, start, min(start + max_records, r.end))
            for r in whole
            for start in range(r.start, r.end, max_records)
        ]
    counts = [1] * len(whole)
    longest: list[tuple[float, int]] = [(-r.size, i) for i, r in enumerate(whole)]
    heapq.heapify(longest)
    missing = min(min_partitions, sum(r.size for r in whole)) - len(whole)
    for _ in range(missing):
        _, i = longest[0]
        counts[i] += 1
        heapq.heapreplace(longest, (-whole[i].size / counts[i], i))
    pieces = []
    for r, count in zip(whole, counts, strict=True):
        bounds = [r.start + r.size * i // count for i in range(count + 1)]
        pieces += [Range(r.queue, a, b) for a, b in itertools.pairwise(bounds)]
    return pieces
