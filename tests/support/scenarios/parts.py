"""What scenarios share: names, waiting, and a listener that keeps what came."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from uuid import uuid4

from pocketmq.client import Admin, PullConsumer, ReceivedMessage, UnknownTopicError

HOLD_MS = 10_000
"""How long a pull may wait for a message that was just sent."""

FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


def fresh(kind: str) -> str:
    """A name that no earlier test used."""
    return f"{kind}-{uuid4().hex[:12]}"


async def holds(admin: Admin, topic: str, count: int) -> None:
    """Waits until a topic holds so many messages: Apache's brokers index what they have stored."""
    while sum(row.count for row in await admin.topic_stats(topic)) < count:
        pass
    assert sum(row.count for row in await admin.topic_stats(topic)) == count


class Inbox:
    """A listener that lets a test wait for what it expects."""

    def __init__(self) -> None:
        self.messages: list[ReceivedMessage] = []
        self._changed = asyncio.Event()

    async def __call__(self, messages: list[ReceivedMessage]) -> object:
        self.messages.extend(messages)
        self._changed.set()
        return None

    async def has(self, condition: Callable[[list[ReceivedMessage]], bool]) -> None:
        """Returns when the condition holds."""
        while not condition(self.messages):
            self._changed.clear()
            await self._changed.wait()

    async def holds(self, count: int) -> None:
        """Returns when so many messages have come."""
        await self.has(lambda messages: len(messages) >= count)


async def first_message(puller: PullConsumer, topic: str) -> ReceivedMessage:
    """The first message of a topic of one queue that is just being created."""
    while True:
        try:
            (queue,) = await puller.queues(topic)
        except UnknownTopicError:
            continue
        result = await puller.pull(queue, 0, hold_ms=HOLD_MS)
        if result.messages:
            return result.messages[0]
