"""Which half messages have ended: the brokers' op records tell, from the newest back."""

from __future__ import annotations

import re

from pocketmq.client import MessageQueue, PullConsumer
from pocketmq.client.errors import UnknownTopicError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import OP_HALF_TOPIC

RECORDS_MAX = 5_000
"""Op records that are read of each broker, the newest; each names up to some hundred messages."""

PULLED_MAX = 64

NEVER_MS = 1 << 62
"""A time that no record is stored at."""

ENDED_TAG = "d"

OUTCOME_FLAG_MAX = 99
"""PocketMQ's op records with a larger flag are about the log, not about single messages."""

_OFFSET = re.compile(rb"[0-9]{1,18}")


class EndedHalves:
    """What the op records of all brokers tell.

    Args:
        reader: of the caller.
    """

    def __init__(self, reader: PullConsumer) -> None:
        self._reader = reader
        self._offsets: set[tuple[str, int]] = set()
        self._since_ms: dict[str, int] = {}

    async def read(self) -> None:
        """Reads the op records."""
        try:
            queues = await self._reader.queues(OP_HALF_TOPIC)
        except UnknownTopicError:
            return
        for queue in queues:
            await self._read(queue)

    async def _read(self, queue: MessageQueue) -> None:
        first, end = await self._reader.min_offset(queue), await self._reader.max_offset(queue)
        offset = max(first, end - RECORDS_MAX)
        if offset > 0:  # what stood before is not known
            self._since_ms[queue.broker_name] = NEVER_MS
        while offset < end:
            result = await self._reader.pull(queue, offset, min(PULLED_MAX, end - offset))
            for record in result.messages:
                if self._since_ms.get(queue.broker_name) == NEVER_MS:
                    self._since_ms[queue.broker_name] = record.store_timestamp
                if record.tags == ENDED_TAG and record.flag <= OUTCOME_FLAG_MAX:
                    self._offsets.update(
                        (queue.broker_name, int(text)) for text in _OFFSET.findall(record.body)
                    )
            offset = max(result.next_offset, offset + 1)

    def has(self, half: ReceivedMessage) -> bool:
        """Whether a half message has ended, or a newer copy of it stands for it."""
        return (half.broker_name, half.queue_offset) in self._offsets

    def knows(self, half: ReceivedMessage) -> bool:
        """Whether the records that were read would tell of its end: it is no older than these."""
        return half.store_timestamp >= self._since_ms.get(half.broker_name, 0)
