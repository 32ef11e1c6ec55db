"""Which messages of topics a job is to take: by ends, offsets and times, without what is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import JobError, OptionError
from pocketmq.spark.jobs.files.ledger import Ledger
from pocketmq.spark.jobs.spans import Spans
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import Range
from pocketmq.spark.topics import CALL_TIMEOUT_MS, queue_ends, queues_to_read

QueueEnds = Mapping[MessageQueue, tuple[int, int]]
"""The least and the next offset of each queue."""

QueueBounds = Mapping[MessageQueue, int]
TimesOf = Callable[[MessageQueue], "int | None"]
"""The time in milliseconds at which a queue's range starts or ends; None for its end."""


@dataclass(frozen=True)
class Look:
    """What topics hold.

    Attributes:
        ends: the least and the next offset of each queue.
        since: where the wanted time begins in each queue; none without such a time.
        until: where it ends.
    """

    ends: QueueEnds
    since: QueueBounds
    until: QueueBounds


@dataclass(frozen=True)
class Wanted:
    """What a run is to take.

    Attributes:
        ranges: what is there and not done.
        lost: what was to be taken and is not there any more.
    """

    ranges: Sequence[Range]
    lost: Sequence[Range]

    @property
    def rows(self) -> int:
        """Messages to take."""
        return sum(r.size for r in self.ranges)


async def look(
    instance: ClientInstance, topics: Sequence[str], since_ms: TimesOf, until_ms: TimesOf
) -> Look:
    """Asks the brokers for the ends of queues, and for the offsets of times.

    Raises:
        MissingTopicError: a topic does not exist.
        OperatingError: a broker cannot be asked.
    """
    queues = await queues_to_read(instance, topics)
    ends = await queue_ends(instance, queues)
    asked = QueueOffsets(instance.pool, instance.routes, CALL_TIMEOUT_MS)

    async def found(times: TimesOf) -> dict[MessageQueue, int]:
        timed = [
            (q, ms) for q in queues if (ms := times(q)) is not None and ends[q][0] < ends[q][1]
        ]
        at = await asyncio.gather(*(asked.at_time(q, ms) for q, ms in timed))
        return {
            q: min(max(offset, ends[q][0]), ends[q][1])
            for (q, _), offset in zip(timed, at, strict=True)
        }

    return Look(ends, await found(since_ms), await found(until_ms))


def chosen(seen: Look, starting: str, ending: str) -> list[Range]:
    """The ranges of explicit offsets and times, the narrower of both.

    Raises:
        OptionError: a table of offsets does not fit the topics.
    """
    first, last = offsets.starting(starting), offsets.ending(ending)
    whole = offsets.ranges(first, last, seen.ends, fail_on_data_loss=False)
    out = []
    for r in whole:
        start = max(r.start, seen.since.get(r.queue, r.start))
        end = min(r.end, seen.until.get(r.queue, r.end))
        if start < end:
            out.append(Range(r.queue, start, end))
    return out


def not_done(ledger: Ledger, ranges: Sequence[Range]) -> Wanted:
    """What of explicit ranges no earlier run has taken."""
    done = Spans.of(ledger.done)
    return Wanted(done.missing_of(ranges), [])


def from_the_first(ledger: Ledger, seen: Look) -> Wanted:
    """All from where the first run found a queue beginning, and what was lost since.

    Books in the ledger where queues begin that are new to it. A queue that is new to a ledger of
    earlier runs was made since then: it is wanted from offset 0 on.
    """
    is_first = not ledger.since
    done = Spans.of(ledger.done)
    known = Spans.of(ledger.done)
    for r in Spans.of(ledger.lost):
        known.add(r)
    ranges: list[Range] = []
    lost: list[Range] = []
    for queue, (least, following) in seen.ends.items():
        by_queue = ledger.since.setdefault(queue.topic, {}).setdefault(queue.broker_name, {})
        first = by_queue.setdefault(str(queue.queue_id), least if is_first else 0)
        end = seen.until.get(queue, following)
        lost += known.missing(Range(queue, first, min(least, following)))
        if max(first, least) < end:
            ranges += done.missing(Range(queue, max(first, least), end))
    return Wanted(ranges, lost)


def gone(ranges: Iterable[Range], ends: QueueEnds) -> list[Range]:
    """What of ranges lies before the first offset that its queue holds now."""
    cut = [Range(r.queue, r.start, min(r.end, ends[r.queue][0])) for r in ranges if r.queue in ends]
    return [r for r in cut if r.start < r.end]


def check_not_made_anew(ledger: Ledger, seen: Look) -> None:
    """Makes sure that what was taken is of these topics, not of earlier ones of the same name.

    Raises:
        JobError: a queue ends before what was taken of it.
    """
    done = Spans.of(ledger.done)
    for queue, (_, following) in seen.ends.items():
        if done.end(queue) > following:
            raise JobError(
                f"going on with {ledger.job}",
                f"{queue} ends at offset {following}, but an earlier run read up to "
                f"{done.end(queue)}: the topic was made anew since then. Take another directory "
                f"for it, or replace this one (--overwrite)",
            )


def check_order(since_ms: int | None, until_ms: int | None) -> None:
    """Makes sure that a time range is one.

    Raises:
        OptionError: it ends before it begins.
    """
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise OptionError("the time range ends before it begins: swap --since and --until")
