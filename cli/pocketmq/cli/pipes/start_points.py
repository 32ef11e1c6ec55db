"""Where `pocketmq tail` and `record` begin: what their option -o means."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from pocketmq.cli.times import timestamp_ms_of

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer

FORMS = "beginning, end, an offset, -5 for the last five of each queue, or "

_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


class StartPoint(msgspec.Struct, frozen=True):
    """Where to begin in each queue; the oldest message if nothing is given.

    Attributes:
        offset: this offset.
        last: so many messages before the end; 0 is the end itself.
        timestamp_ms: the first message stored at that time or later.
    """

    offset: int | None = None
    last: int | None = None
    timestamp_ms: int | None = None

    async def offset_in(self, consumer: PullConsumer, queue: MessageQueue) -> int:
        """The offset that it is in a queue; what the queue does not have is its nearest end.

        Raises:
            RouteError, NoNameServerError, ResponseError.
        """
        low = await consumer.min_offset(queue)
        if self.timestamp_ms is not None:
            return max(low, await consumer.search_offset(queue, self.timestamp_ms))
        if self.offset is None and self.last is None:
            return low
        high = await consumer.max_offset(queue)
        wanted = self.offset if self.offset is not None else high - (self.last or 0)
        return max(low, min(wanted, high))


BEGINNING = StartPoint()
END = StartPoint(last=0)


def start_point(text: str) -> StartPoint:
    """Reads ``beginning``, ``end``, an offset, ``-5`` or a time in ISO 8601.

    Raises:
        UsageError: it is none of them.
    """
    if text in ("beginning", "earliest"):
        return BEGINNING
    if text in ("end", "latest"):
        return END
    if _NUMBER.fullmatch(text):
        return StartPoint(last=-int(text)) if text[0] == "-" else StartPoint(offset=int(text))
    return StartPoint(timestamp_ms=timestamp_ms_of("--offset", text, FORMS))
