"""Lets a stream drop repeats: follows the commits of marked writes.

A row that was marked counts once its write is committed (see `pocketmq.spark.marked.commits`),
which may be long after the stream has passed the row. So a batch reads two things: of the messages
that came since the last batch those that count by now, and of the messages that were passed before
those whose commit has come since. Nothing waits for a write that never ends, and each row that
counts comes exactly once. How far the commit topic was followed is part of the stream's position.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark import topics
from pocketmq.spark.marked.commits import Commits, OffsetRanges
from pocketmq.spark.marked.intervals import Intervals
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.repeats import ALWAYS, NEVER, RepeatFilters, commit_records
from pocketmq.spark.streaming.offsets import Offsets
from pocketmq.spark.streaming.options import StreamOptions

Ints = npt.NDArray[np.int64]


class LateRows(NamedTuple):
    """Picks messages that the stream passed before their write was committed.

    Attributes:
        places: where they lie.
    """

    places: Intervals

    def counts(self, writers: Any, offsets: Ints, store_timestamps: Ints) -> npt.NDArray[np.bool_]:
        """Tells which messages were passed and count now."""
        return self.places.contains(offsets)


class _Settled(NamedTuple):
    """The offsets that count since one record of the commit topic."""

    queue: MessageQueue
    offset: int
    places: OffsetRanges


class CommitFeed:
    """Follows the commits of the topics of a stream from batch to batch.

    Args:
        instance: running.
        options: of the stream.
    """

    def __init__(self, instance: ClientInstance, options: StreamOptions) -> None:
        self._instance, self._options = instance, options
        self._begin()

    def _begin(self) -> None:
        self._commits = Commits(
            None if self._options.subscribe_pattern else self._options.named_topics
        )
        self._followed: Offsets = {}
        self._known_since: dict[str, int] = {}
        self._settled: list[_Settled] = []

    async def follow(self, ends: Offsets) -> None:
        """Reads commits on, or anew, up to the ends and not beyond.

        Args:
            ends: of the queues of the commit topic.

        Raises:
            OperatingError: a broker that holds a part of it does not answer.
        """
        if any(self._followed.get(q, 0) > end for q, end in ends.items()):
            self._begin()
        found = []
        new = sorted(ends.keys() - self._followed.keys())
        held = await topics.queue_ends(self._instance, new)
        for queue, end in sorted(ends.items()):
            first = held[queue][0] if queue in held else 0
            start = self._followed.get(queue, first)
            records = await commit_records(self._instance, self._options, Range(queue, start, end))
            found += records
            if queue not in self._followed:
                since = ALWAYS if first == 0 else records[0][0] if records else NEVER
                known = self._known_since.get(queue.broker_name, ALWAYS)
                self._known_since[queue.broker_name] = max(known, since)
            self._followed[queue] = max(start, end)
        for _, queue, offset, record in sorted(found, key=lambda r: r[:3]):
            if places := self._commits.add(record):
                self._settled.append(_Settled(queue, offset, places))

    def late(self, start: Offsets, end: Offsets, passed: Offsets) -> OffsetRanges:
        """Returns the passed offsets that were committed between two positions of the commit topic.

        Args:
            start, end: of the commit topic.
            passed: the next offset of each queue of the stream.
        """
        late: OffsetRanges = {}
        for queue, offset, places in self._settled:
            if not start.get(queue, 0) <= offset < end.get(queue, 0):
                continue
            for of_queue, pairs in places.items():
                reach = passed.get(of_queue, 0)
                below = [(first, min(last, reach)) for first, last in pairs if first < reach]
                if below:
                    late.setdefault(of_queue, []).extend(below)
        return late

    def forget(self, before: Offsets, passed: Offsets) -> None:
        """Drops commits that no later batch asks for, so that memory is bounded by a batch.

        Args:
            before: of the commit topic: where the last batch began in it.
            passed: below these offsets no queue of the stream is read again, but for late rows.
        """
        self._settled = [s for s in self._settled if s.offset >= before.get(s.queue, 0)]
        self._commits.forget_below(passed)

    def filters(self) -> RepeatFilters:
        """Makes the filters of queues by the commits that were followed."""
        fails = self._options.fail_on_data_loss
        return RepeatFilters(self._commits, self._known_since, fail_on_data_loss=fails)
