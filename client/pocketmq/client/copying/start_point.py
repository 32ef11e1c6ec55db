"""The offsets at which a feed begins in the queues of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer


class StartPoint(msgspec.Struct, frozen=True):
    """The offset to begin at in each queue; the oldest message if no field is given.

    Attributes:
        offset: an offset.
        last: a number of messages before the end; 0 is the end itself.
        timestamp_ms: the first message stored at that time or later.
    """

    offset: int | None = None
    last: int | None = None
    timestamp_ms: int | None = None

    async def offset_in(self, consumer: PullConsumer, queue: MessageQueue) -> int:
        """Resolves the point in a queue; one outside of the queue gives the nearer end.

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
