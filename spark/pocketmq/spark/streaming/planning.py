"""Decides how far the next batch of a stream goes, by what the queues hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import ClosedQueueError, DataLossError, NewTopicError
from pocketmq.spark.streaming.limits import BatchLimits
from pocketmq.spark.streaming.offsets import Offsets, Position
from pocketmq.spark.streaming.survey import Survey


class Waiting(NamedTuple):
    """The messages that could be read now.

    Attributes:
        ranges: from where to where, by queue; may be empty.
        elsewhere: queues that do not begin where the last batch ended.
        dropped: queues that are not there any more.
    """

    ranges: dict[MessageQueue, tuple[int, int]]
    elsewhere: set[MessageQueue]
    dropped: set[MessageQueue]


def waiting(
    start: Position,
    found: Survey,
    targets: Mapping[MessageQueue, int] | None,
    *,
    fail_on_data_loss: bool,
) -> Waiting:
    """Finds the messages that could be read from a position on.

    Args:
        start: where the last batch ended.
        found: what the queues hold.
        targets: ends beyond which nothing is to be read, and queues beside which none; None for
            all there is.
        fail_on_data_loss: messages that were not read and are gone are an error.

    Raises:
        DataLossError: see `fail_on_data_loss`.
    """
    ranges: dict[MessageQueue, tuple[int, int]] = {}
    elsewhere: set[MessageQueue] = set()
    for queue, (least, following) in found.held.items():
        first = start.offsets.get(queue)
        if first is None:
            first = least
            elsewhere.add(queue)
        elif not least <= first <= following:
            if fail_on_data_loss:
                lost = DataLossError if first < least else NewTopicError
                raise lost(str(queue), first, max(first, following), least, following)
            first = least
            elsewhere.add(queue)
        last = following if targets is None else min(following, targets.get(queue, first))
        ranges[queue] = (first, max(first, last))
    dropped = set()
    for queue, (least, following) in found.closed.items():
        first = start.offsets[queue]
        if first != following and fail_on_data_loss:
            raise ClosedQueueError(str(queue), first, max(first, following), least, following)
        dropped.add(queue)
    return Waiting(ranges, elsewhere, dropped)


def next_position(
    start: Position, now: Waiting, limits: BatchLimits, *, is_limited: bool, may_wait: bool = True
) -> Position:
    """Decides where the next batch ends; returns the start itself if there is no batch yet.

    Args:
        start: where the last batch ended.
        now: what could be read.
        limits: of the stream.
        is_limited: False for a trigger that reads all there is.
        may_wait: whether a batch may be put off until there is more for it.
    """
    backlogs = {q: last - first for q, (first, last) in now.ranges.items() if first < last}
    taken: Offsets = {}
    if backlogs:
        taken = limits.take(backlogs, is_limited=is_limited, may_wait=may_wait)
    if not taken:
        return start
    offsets: Offsets = {q: o for q, o in start.offsets.items() if q not in now.dropped}
    starts: Offsets = dict(offsets) if start.is_first else {}
    for queue, (first, _) in now.ranges.items():
        if queue in taken or queue in start.offsets:
            offsets[queue] = first + taken.get(queue, 0)
        if queue in taken and queue in now.elsewhere:
            starts[queue] = first
    return Position(offsets, starts)
