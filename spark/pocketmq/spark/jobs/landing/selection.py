"""Selects the messages of topics that a job takes: by offsets and times, without what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import JobError
from pocketmq.spark.jobs.files.ledger import Ledger
from pocketmq.spark.jobs.spans import Spans
from pocketmq.spark.queue_tables import queue_table, queue_values
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.reading.time_bounds import offsets_at
from pocketmq.spark.topics import queue_ends, queues_to_read

QueueEnds = Mapping[MessageQueue, tuple[int, int]]
"""The least and the next offset of each queue."""

QueueOffset = Mapping[MessageQueue, int]


class TopicBounds(NamedTuple):
    """What topics hold, and where times lie in it.

    Attributes:
        ends: the least and the next offset of each queue.
        since: the offset in each queue of the time to begin at; none without such a time.
        until: that of the time to end at.
    """

    ends: QueueEnds
    since: QueueOffset
    until: QueueOffset


class Selection(NamedTuple):
    """What a run takes.

    Attributes:
        ranges: what is there and not done.
        lost: what was to be taken and is not there any more.
    """

    ranges: Sequence[Range]
    lost: Sequence[Range]


async def topic_bounds(
    instance: ClientInstance,
    topics: Sequence[str],
    since_ms: int | None,
    until_ms: int | Callable[[MessageQueue], int] | None,
) -> TopicBounds:
    """Asks the brokers for the ends of queues, and for the offsets of times.

    Args:
        instance: running.
        topics: their names.
        since_ms, until_ms: the times to begin and to end at, the latter perhaps by queue; None for
            the ends of the queues.

    Raises:
        MissingTopicError: a topic does not exist.
        OperatingError: a broker cannot be asked.
    """
    queues = await queues_to_read(instance, topics)
    ends = await queue_ends(instance, queues)
    filled = [q for q, (least, following) in ends.items() if least < following]

    async def found(times: Mapping[MessageQueue, int | None]) -> QueueOffset:
        named = {q: ms for q, ms in times.items() if ms is not None}
        offset_of = await offsets_at(instance, named)
        return {q: min(max(o, ends[q][0]), ends[q][1]) for q, o in offset_of.items()}

    until = {q: until_ms(q) if callable(until_ms) else until_ms for q in filled}
    return TopicBounds(ends, await found(dict.fromkeys(filled, since_ms)), await found(until))


def selected_ranges(bounds: TopicBounds, starting: str, ending: str) -> list[Range]:
    """Returns the ranges of explicit offsets and of times, the narrower of both.

    Raises:
        OptionError: a table of offsets does not fit the topics.
    """
    first, last = offsets.starting(starting), offsets.ending(ending)
    whole = offsets.ranges(first, last, bounds.ends, fail_on_data_loss=False)
    narrowed = (
        Range(
            r.queue,
            max(r.start, bounds.since.get(r.queue, r.start)),
            min(r.end, bounds.until.get(r.queue, r.end)),
        )
        for r in whole
    )
    return [r for r in narrowed if r.start < r.end]


def not_done(ledger: Ledger, ranges: Sequence[Range]) -> Selection:
    """Selects what no earlier run has taken of explicit ranges."""
    return Selection(Spans.of(ledger.done).missing_of(ranges), [])


def from_the_first(ledger: Ledger, bounds: TopicBounds) -> Selection:
    """Selects what no run has taken since the first one, and what retention has deleted of it.

    Books in the ledger where queues begin that are new to it. A queue that is new to a ledger of
    earlier runs was made since then: it is taken from offset 0 on.
    """
    is_first = not ledger.since
    begins = dict(queue_values(ledger.since))
    done = Spans.of(ledger.done)
    known = Spans([*done, *Spans.of(ledger.lost)])
    ranges: list[Range] = []
    lost: list[Range] = []
    for queue, (least, following) in bounds.ends.items():
        first = begins.setdefault(queue, least if is_first else 0)
        end = bounds.until.get(queue, following)
        lost += known.missing(Range(queue, first, min(least, following)))
        if max(first, least) < end:
            ranges += done.missing(Range(queue, max(first, least), end))
    ledger.since = queue_table(begins.items())
    return Selection(ranges, lost)


def deleted_of(ranges: Iterable[Range], ends: QueueEnds) -> list[Range]:
    """Returns what of ranges lies before the first offset that its queue holds now."""
    cut = [Range(r.queue, r.start, min(r.end, ends[r.queue][0])) for r in ranges if r.queue in ends]
    return [r for r in cut if r.start < r.end]


def check_not_made_anew(ledger: Ledger, ends: QueueEnds) -> None:
    """Checks that earlier runs read these topics, not deleted ones of the same names.

    Raises:
        JobError: a queue ends before what was taken of it.
    """
    done = Spans.of(ledger.done)
    for queue, (_, following) in ends.items():
        if done.end(queue) > following:
            raise JobError(
                f"going on with {ledger.job}",
                f"{queue} ends at offset {following}, but an earlier run read up to "
                f"{done.end(queue)}: the topic was made anew since then. Take another directory "
                f"for it, or replace this one (--overwrite)",
            )
