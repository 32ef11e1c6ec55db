"""A group's offsets in its queues: kept here, stored in the brokers from time to time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from pocketmq.client.instance.queue_offsets import QueueOffsets
from pocketmq.client.log_fields import log_fields
from pocketmq.protocol.bodies.clients import (
    CONSUME_FROM_FIRST_OFFSET,
    CONSUME_FROM_LAST_OFFSET,
    CONSUME_FROM_TIMESTAMP,
)
from pocketmq.protocol.errors import ConfigError, OperatingError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.names.names import RETRY_PREFIX

log = logging.getLogger("pocketmq.client")


class ConsumeFromWhere:
    """Finds where a group begins in a queue that it has no offset for.

    Args:
        where: one of RocketMQ's three CONSUME_FROM_… words.
        timestamp_ms: for CONSUME_FROM_TIMESTAMP, milliseconds since the epoch.

    Raises:
        ConfigError: `where` is none of the three.
    """

    def __init__(self, where: str, timestamp_ms: int) -> None:
        known = (CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_TIMESTAMP)
        if where not in known:
            raise ConfigError(f"consume_from_where={where!r} is none of {', '.join(known)}")
        self._where, self._timestamp_ms = where, timestamp_ms

    async def find(self, offsets: QueueOffsets, queue: MessageQueue) -> int:
        """Returns the first offset to read.

        In a retry topic that is the oldest: whatever lies there failed in this very group.

        Raises:
            What `QueueOffsets` raises.
        """
        is_retry = queue.topic.startswith(RETRY_PREFIX)
        if is_retry or self._where == CONSUME_FROM_FIRST_OFFSET:
            return await offsets.min(queue)
        if self._where == CONSUME_FROM_LAST_OFFSET:
            return await offsets.max(queue)
        return await offsets.at_time(queue, self._timestamp_ms)


class OffsetStore(Protocol):
    """Keeps the offsets of a group, or of a broadcasting member."""

    async def load(self, queue: MessageQueue) -> int:
        """Returns the offset at which to continue in a queue."""

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset of a queue; None if there is none."""

    async def store(self, current: Iterable[tuple[MessageQueue, int]]) -> None:
        """Stores the changed offsets."""

    def forget(self, queue: MessageQueue) -> None:
        """Drops what is known of a queue that is not this member's any more."""

    def moved(self, queue: MessageQueue) -> None:
        """Drops what was stored for a queue, in which the group was put elsewhere."""


class RemoteBrokerOffsetStore:
    """Keeps a group's offsets in the brokers (`client/consumer/store/RemoteBrokerOffsetStore`).

    Args:
        group: the consumer group.
        offsets: the brokers.
        from_where: where to begin without a stored offset.
    """

    def __init__(self, group: str, offsets: QueueOffsets, from_where: ConsumeFromWhere) -> None:
        self._group, self._offsets, self._from_where = group, offsets, from_where
        self._stored: dict[MessageQueue, int] = {}
        self._moves = 0

    async def load(self, queue: MessageQueue) -> int:
        """Returns the offset at which to continue in a queue.

        Raises:
            What `QueueOffsets` raises.
        """
        stored = await self._offsets.committed(self._group, queue)
        if stored is None:
            return await self._from_where.find(self._offsets, queue)
        self._stored[queue] = stored
        return stored

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the stored offset of a queue; None if there is none.

        Raises:
            What `QueueOffsets` raises.
        """
        stored = self._stored.get(queue)
        return await self._offsets.committed(self._group, queue) if stored is None else stored

    async def store(self, current: Iterable[tuple[MessageQueue, int]]) -> None:
        """Stores the changed offsets; those that cannot be stored are stored the next time."""
        changed = [(q, offset) for q, offset in current if self._stored.get(q) != offset]
        await asyncio.gather(*(self._store(queue, offset) for queue, offset in changed))

    async def _store(self, queue: MessageQueue, offset: int) -> None:
        moves = self._moves
        try:
            await self._offsets.commit(self._group, queue, offset)
        except OperatingError as e:
            log.warning(
                "group %s: offset %d of %s is not stored: %s",
                self._group,
                offset,
                queue,
                e,
                extra=log_fields(self._group, queue),
            )
        else:
            if moves == self._moves:
                self._stored[queue] = offset

    def forget(self, queue: MessageQueue) -> None:
        """Drops what is known of a queue that belongs to another member now."""
        self._stored.pop(queue, None)

    def moved(self, queue: MessageQueue) -> None:
        """Has even the same offset stored anew, because the group was put elsewhere in a queue.

        What is under way to the broker does not count, which ignores it before the next pull.
        """
        self._moves += 1
        self._stored.pop(queue, None)
