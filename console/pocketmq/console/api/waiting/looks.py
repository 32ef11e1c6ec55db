"""Looks through the brokers' own topics for the messages of one topic that wait there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pocketmq.client import Admin, MessageQueue, PullConsumer
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.finding.browsing import cursor_at
from pocketmq.console.api.waiting.bodies import Kind
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.names.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

TOPICS: dict[Kind, str] = {"level": SCHEDULE_TOPIC, "timer": TIMER_TOPIC, "half": HALF_TOPIC}
"""Where messages of each kind wait."""

ASKED_AT_ONCE_MAX = 8
"""Questions to brokers at a time."""


class Waiting:
    """Tells whether a record of the brokers' own topic is a message that waits.

    Args:
        topic: into which it is to be delivered.
        kind: how it waits.
        now_ms: what was due before waits no more.
    """

    def __init__(self, topic: str, kind: Kind, now_ms: int) -> None:
        self._topic, self._kind, self._now_ms = topic, kind, now_ms

    async def fits(self, message: Message) -> bool:
        """Tells whether a record is wanted; that of a recall is not."""
        given = message.properties
        if given.get(props.REAL_TOPIC) != self._topic or props.TIMER_DELETE_KEY in given:
            return False
        assert isinstance(message, ReceivedMessage)
        due_ms = None if self._kind == "half" else known_due_ms(message)
        return due_ms is None or due_ms > self._now_ms


def known_due_ms(record: ReceivedMessage) -> int | None:
    """When a record is due, if the record tells: those of Apache's delay levels do not."""
    if record.prepared_transaction_offset > 0:
        return record.prepared_transaction_offset
    return number_in(record, props.TIMER_OUT_MS)


def number_in(record: ReceivedMessage, name: str) -> int | None:
    """Returns the number that a property holds; None if it holds none."""
    text = record.properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else None


async def due_ms_of(admin: Admin, record: ReceivedMessage) -> int | None:
    """When a record is due; of Apache's delay levels the index entry tells."""
    due_ms = known_due_ms(record)
    if due_ms is not None or record.topic != SCHEDULE_TOPIC:
        return due_ms
    queue = MessageQueue(record.topic, record.broker_name, record.queue_id)
    entries = (await admin.queue_entries(queue, record.queue_offset)).queue_data
    return entries[0].tags_code if entries else None


async def level_cursor(reader: PullConsumer, admin: Admin, now_ms: int) -> str:
    """Returns the cursor of a look at the delay levels, at the first messages that still wait.

    The messages of a level are due in the order of their queue, so that a few questions find the
    first; after a change of the levels some that are due may come along.
    """
    try:
        queues: Sequence[MessageQueue] = await reader.queues(SCHEDULE_TOPIC)
    except UnknownTopicError:
        queues = []
    turn = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def first(queue: MessageQueue) -> tuple[MessageQueue, int]:
        async with turn:
            return queue, await _first_waiting(reader, admin, queue, now_ms)

    return cursor_at(await asyncio.gather(*map(first, queues)))


async def _first_waiting(
    reader: PullConsumer, admin: Admin, queue: MessageQueue, now_ms: int
) -> int:
    low, high = await reader.min_offset(queue), await reader.max_offset(queue)
    while low < high:
        middle = (low + high) // 2
        record = await admin.message_at(queue, middle)
        due_ms = None if record is None else await due_ms_of(admin, record)
        if due_ms is None or due_ms <= now_ms:
            low = middle + 1
        else:
            high = middle
    return low


async def records_of(admin: Admin, record: ReceivedMessage) -> list[ReceivedMessage]:
    """Returns all records with the id of a record in the same topic: copies, and recalls."""
    key = record.unique_key
    if key is None:
        return [record]
    return await admin.query_messages(record.topic, key, index="unique_key")
