"""Looks up the bounds of a read that are given as times, before the job starts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import OptionError
from pocketmq.spark.options import ReadOptions
from pocketmq.spark.queue_tables import queue_table, read_table
from pocketmq.spark.reading import offsets
from pocketmq.spark.reading.offsets import Bound, OffsetTable

if TYPE_CHECKING:
    from pocketmq.client.instance.instance import ClientInstance

EXAMPLE_MS = 1_790_000_000_000
"""A time of the year 2026, for errors."""

ANY = -1
"""Stands for a queue to which no time is given."""


async def starting_bound(
    instance: ClientInstance, options: ReadOptions, queues: Sequence[MessageQueue]
) -> Bound:
    """Returns the bound by `startingTimestamp`, `startingOffsetsByTimestamp` or `startingOffsets`.

    Raises:
        OptionError: one of them cannot be read.
    """
    bound = offsets.starting(options.starting_offsets)
    one, table = options.starting_timestamp, options.starting_offsets_by_timestamp
    return await _bound(instance, "starting", one, table, queues, bound)


async def ending_bound(
    instance: ClientInstance, options: ReadOptions, queues: Sequence[MessageQueue]
) -> Bound:
    """Returns the bound by `endingTimestamp`, `endingOffsetsByTimestamp` or `endingOffsets`.

    Raises:
        OptionError: one of them cannot be read.
    """
    bound = offsets.ending(options.ending_offsets)
    one, table = options.ending_timestamp, options.ending_offsets_by_timestamp
    return await _bound(instance, "ending", one, table, queues, bound)


async def _bound(
    instance: ClientInstance,
    which: str,
    timestamp: str,
    by_queue: str,
    queues: Sequence[MessageQueue],
    bound: Bound,
) -> Bound:
    if timestamp:
        at = read_timestamp(f"{which}Timestamp", timestamp)
        wanted = dict.fromkeys(queues, at)
        option = f"{which}Timestamp"
    elif by_queue:
        option = f"{which}OffsetsByTimestamp"
        table = read_table(option, by_queue, OffsetTable, {"0": EXAMPLE_MS})
        named = Bound(option, ANY, table)
        offsets.check_names(named, queues)
        times = {q: named.named(q) for q in queues}
        wanted = {q: at for q, at in times.items() if at is not None}
    else:
        return bound
    found = await offsets_at(instance, wanted)
    return Bound(option, bound.otherwise, queue_table(found.items()), is_time=True)


async def offsets_at(
    instance: ClientInstance, times: dict[MessageQueue, int]
) -> dict[MessageQueue, int]:
    """Asks for the first offset of each queue that was stored at a time (ms) or later.

    It is the queue's end if there is no such message.
    """
    import asyncio  # with the client: reading options needs neither

    from pocketmq.client.instance.queue_offsets import QueueOffsets
    from pocketmq.spark.retries import once_led
    from pocketmq.spark.topics import CALL_TIMEOUT_MS

    known = QueueOffsets(instance.pool, instance.routes, CALL_TIMEOUT_MS)

    async def ask() -> list[int]:
        return await asyncio.gather(*(known.at_time(q, at) for q, at in times.items()))

    found = await once_led(instance, {q.topic for q in times}, ask)
    return dict(zip(times, found, strict=True))


def read_timestamp(option: str, text: str) -> int:
    """Reads a time, given as milliseconds since the epoch or as ISO 8601.

    Raises:
        OptionError: it is neither.
    """
    stripped = text.strip()
    if stripped.isdecimal():
        return int(stripped)
    try:
        at = datetime.fromisoformat(stripped)
    except ValueError:
        raise OptionError(
            f"option {option!r} is {text!r}: give milliseconds since 1970, or a time such as "
            f"2026-11-21T08:00:00+01:00"
        ) from None
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return int(at.timestamp() * 1000)
