"""Offsets as brokers know them: the ends of a queue, times, and committed offsets."""

from __future__ import annotations

from pocketmq.client.instance.routes import RouteCache
from pocketmq.protocol.errors import NotFoundError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.offsets import (
    EarliestStoreTimeRequest,
    MaxOffsetRequest,
    MinOffsetRequest,
    OffsetResponse,
    QueryConsumerOffsetRequest,
    SearchOffsetRequest,
    TimestampResponse,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.wire.header import HeaderT, RequestHeader
from pocketmq.transport.pool import ConnectionPool


class QueueOffsets:
    """Asks the master of a queue's broker for offsets.

    All methods raise RouteError and NoNameServerError when the broker is not known,
    ResponseError when it refuses, and the transport's errors.

    Args:
        pool: the connections.
        routes: where queues are.
        timeout_ms: of each call.
    """

    def __init__(self, pool: ConnectionPool, routes: RouteCache, timeout_ms: float) -> None:
        self._pool, self._routes, self._timeout_ms = pool, routes, timeout_ms

    async def min(self, queue: MessageQueue) -> int:
        """Returns the offset of the oldest message that the queue still holds."""
        request = MinOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return (await self._ask(queue, request, OffsetResponse)).offset

    async def max(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will get."""
        request = MaxOffsetRequest(topic=queue.topic, queue_id=queue.queue_id)
        return (await self._ask(queue, request, OffsetResponse)).offset

    async def at_time(self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False) -> int:
        """Returns the first offset stored at that time or later; with `upper` the last before.

        Args:
            queue: where to search.
            timestamp_ms: milliseconds since the epoch.
            upper: RocketMQ's boundary type UPPER.
        """
        request = SearchOffsetRequest(
            topic=queue.topic,
            queue_id=queue.queue_id,
            timestamp=timestamp_ms,
            boundary_type="UPPER" if upper else "LOWER",
        )
        return (await self._ask(queue, request, OffsetResponse)).offset

    async def earliest_store_time(self, queue: MessageQueue) -> int:
        """Returns when the oldest message was stored, in milliseconds; -1 if there is none."""
        request = EarliestStoreTimeRequest(topic=queue.topic, queue_id=queue.queue_id)
        return (await self._ask(queue, request, TimestampResponse)).timestamp

    async def committed(
        self, group: str, queue: MessageQueue, *, is_exact: bool = False
    ) -> int | None:
        """Returns a group's committed offset in a queue; None if there is none.

        A broker answers 0 for a new group while the queue's first messages are in its memory.

        Args:
            group: which group.
            queue: in which queue.
            is_exact: None for such a group, too.
        """
        request = QueryConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            set_zero_if_not_found=False if is_exact else None,
        )
        try:
            return (await self._ask(queue, request, OffsetResponse)).offset
        except NotFoundError:
            return None

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commits a group's offset in a queue."""
        request = UpdateConsumerOffsetRequest(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        await self._pool.ask(await self._routes.master_of(queue), request, self._timeout_ms)

    async def _ask(
        self, queue: MessageQueue, request: RequestHeader, answer: type[HeaderT]
    ) -> HeaderT:
        address = await self._routes.master_of(queue)
        return await self._pool.ask_for(address, request, answer, self._timeout_ms)
