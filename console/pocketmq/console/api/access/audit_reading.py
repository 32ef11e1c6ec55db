"""Reads the topics of audits from their ends, the newest record first; nothing is consumed."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from pocketmq.client import MessageQueue, PullConsumer
from pocketmq.console.api.access.audit_bodies import AuditQuery, AuditRecord, Stop
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock

BLOCK = 200
"""Records that are pulled together."""


class Place(msgspec.Struct, array_like=True):
    """Where the records of a broker go on: before an offset."""

    broker: str
    topic: str
    offset: int


class AuditFound(NamedTuple):
    """What a look has found; see `AuditRecords`."""

    records: list[AuditRecord]
    scanned: int
    unreadable: int
    stopped: Stop
    places: list[Place]


class _Backwards:
    """The messages of a queue, the newest first.

    Args:
        reader: pulls.
        queue: which.
        first, end: its offsets.
    """

    def __init__(self, reader: PullConsumer, queue: MessageQueue, first: int, end: int) -> None:
        self._reader, self.queue = reader, queue
        self._first, self.end = first, end
        self._begin = end
        self._block: list[ReceivedMessage] = []

    async def newest(self) -> ReceivedMessage | None:
        """The newest message that was not taken; None if all were."""
        while not self._block and self._begin > self._first:
            end, self._begin = self._begin, max(self._first, self._begin - BLOCK)
            await self._pull(end)
        if not self._block:
            self.end = self._first
            return None
        return self._block[-1]

    async def _pull(self, end: int) -> None:
        offset = self._begin
        while offset < end:
            result = await self._reader.pull(self.queue, offset, end - offset)
            self._block += [m for m in result.messages if offset <= m.queue_offset < end]
            offset = max(result.next_offset, offset + 1)

    def take(self) -> ReceivedMessage:
        """Takes the newest message."""
        message = self._block.pop()
        self.end = message.queue_offset
        return message


async def read_audit(
    reader: PullConsumer, places: Sequence[Place], query: AuditQuery, clock: Clock
) -> AuditFound:
    """Looks through audits.

    Args:
        reader: a consumer that does not register.
        places: where to begin, on each broker.
        query: what is wanted.
        clock: bounds the time.
    """
    until_s = clock.stopwatch() + query.seconds
    fits = _condition(query)
    queues = [await _backwards(reader, place) for place in places]
    newest: list[tuple[int, int]] = []  # negative store times, and numbers of queues

    async def look(number: int) -> None:
        message = await queues[number].newest()
        if message is not None:
            heapq.heappush(newest, (-message.store_timestamp, number))

    for number in range(len(queues)):
        await look(number)
    records: list[AuditRecord] = []
    scanned = unreadable = 0
    stopped: Stop = "end"
    while newest:
        if len(records) == query.limit:
            stopped = "limit"
        elif scanned == query.scan:
            stopped = "scan"
        elif clock.stopwatch() >= until_s:
            stopped = "time"
        if stopped != "end":
            break
        _, number = heapq.heappop(newest)
        message = queues[number].take()
        scanned += 1
        record = _record(message, queues[number].queue.broker_name)
        if record is None:
            unreadable += 1
        elif fits(record):
            records.append(record)
        await look(number)
    left = [Place(queue.queue.broker_name, queue.queue.topic, queue.end) for queue in queues]
    return AuditFound(records, scanned, unreadable, stopped, left)


async def _backwards(reader: PullConsumer, place: Place) -> _Backwards:
    queue = MessageQueue(place.topic, place.broker, 0)
    first, end = await reader.min_offset(queue), await reader.max_offset(queue)
    return _Backwards(reader, queue, first, max(first, min(place.offset, end)))


def _record(message: ReceivedMessage, broker: str) -> AuditRecord | None:
    """Reads a record; None if the message is none."""
    try:
        record = _DECODER.decode(message.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    record.broker, record.offset = broker, message.queue_offset
    return record


_DECODER = msgspec.json.Decoder(AuditRecord)


def _condition(query: AuditQuery) -> Callable[[AuditRecord], bool]:
    action = None if query.action is None else query.action.upper()
    resource = None if query.resource is None else query.resource.lower()

    def fits(record: AuditRecord) -> bool:
        person = "" if record.claimed is None else record.claimed.person
        return (
            (query.user is None or query.user in (record.user, person))
            and (action is None or action in (record.request or "") or action == str(record.code))
            and (query.outcome is None or query.outcome == record.outcome)
            and (resource is None or resource in _changed_text(record))
        )

    return fits


def _changed_text(record: AuditRecord) -> str:
    parts = [record.fields, record.before, record.after, record.reason]
    return msgspec.json.encode(parts).decode().lower()


def encode_places(places: Sequence[Place]) -> str:
    """Writes a cursor."""
    return msgspec.json.encode(places).decode()


def decode_places(text: str) -> list[Place]:
    """Reads a cursor.

    Raises:
        UsageError: it is none.
    """
    try:
        return msgspec.json.decode(text, type=list[Place])
    except msgspec.MsgspecError as e:
        raise UsageError(f"the cursor is not of an answer of this API: {e}") from e
