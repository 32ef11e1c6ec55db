"""Looks through the messages of a topic, and always says how far, and why no further."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import msgspec

from pocketmq.client import MessageQueue, PullConsumer
from pocketmq.console.api.bodies.messages import BrowseQuery, ScannedQueue, Stop
from pocketmq.console.api.finding.conditions import Fits
from pocketmq.console.api.queues import queue_named
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock

PULLED_MAX, AHEAD_MAX = 64, 1024
"""Messages of one pull, and those of all queues that may have been pulled and not looked at."""

FOUND_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of bodies in one answer, and one message more."""

LATEST = "latest"


class _Place(msgspec.Struct, array_like=True):
    """Where a look through a queue goes on."""

    broker: str
    queue: int
    offset: int


class _Cursor:
    """A queue that is looked through.

    Attributes:
        queue: which.
        begin, offset: the first offset that is looked at, and the next one.
        end: the queue's end at the beginning of the look.
        first: the first offset that the queue holds.
        ahead: messages that were pulled, and not looked at.
    """

    def __init__(self, queue: MessageQueue, offset: int, end: int, first: int = 0) -> None:
        self.queue, self.begin, self.offset, self.end = queue, offset, offset, end
        self.first = first
        self.ahead: list[ReceivedMessage] = []

    @property
    def is_at_end(self) -> bool:
        return not self.ahead and self.offset >= self.end

    async def fill(self, reader: PullConsumer, count_max: int) -> None:
        """Pulls more if nothing is left."""
        while not self.ahead and self.offset < self.end:
            count = min(count_max, self.end - self.offset)
            result = await reader.pull(self.queue, self.offset, count)
            self.ahead = [m for m in reversed(result.messages) if m.queue_offset < self.end]
            if not self.ahead:
                self.offset = max(result.next_offset, self.offset + 1)

    def take(self) -> ReceivedMessage:
        """The next message."""
        message = self.ahead.pop()
        self.offset = message.queue_offset + 1
        return message


class Found(msgspec.Struct):
    """What a look has found.

    Attributes:
        messages: those that fit, by their store times; the newest first if these were wanted.
        scanned: messages that were looked at.
        stopped: why not more.
        queues: what was looked at.
        cursor: where to go on; None at the end.
        older: from where older messages than the newest ones are before; None if there are none.
    """

    messages: list[ReceivedMessage]
    scanned: int
    stopped: Stop
    queues: list[ScannedQueue]
    cursor: str | None
    older: str | None = None


class _Look:
    """Takes the messages of several queues in the order of their store times.

    Args:
        reader: pulls.
        cursors: the queues.
    """

    def __init__(self, reader: PullConsumer, cursors: Sequence[_Cursor]) -> None:
        self._reader, self._cursors = reader, cursors
        self._pulled_max = max(1, min(PULLED_MAX, AHEAD_MAX // max(len(cursors), 1)))
        self._oldest: list[tuple[int, int]] = []  # store times, and numbers of queues

    async def begin(self, is_late: Callable[[], bool]) -> bool:
        """Pulls from each queue; False if there is no time for that."""
        for number in range(len(self._cursors)):
            if is_late():
                return False
            await self._fill(number)
        return True

    async def _fill(self, number: int) -> None:
        cursor = self._cursors[number]
        await cursor.fill(self._reader, self._pulled_max)
        if cursor.ahead:
            heapq.heappush(self._oldest, (cursor.ahead[-1].store_timestamp, number))

    @property
    def is_at_end(self) -> bool:
        """Whether no message is left."""
        return not self._oldest

    async def take(self) -> ReceivedMessage:
        """The oldest message of those that were not taken."""
        _, number = heapq.heappop(self._oldest)
        message = self._cursors[number].take()
        await self._fill(number)
        return message


async def browse(
    reader: PullConsumer, topic: str, query: BrowseQuery, condition: Fits, clock: Clock
) -> Found:
    """Looks through a topic; nothing is consumed.

    Args:
        reader: a consumer that does not register.
        topic: its name.
        query: what is wanted.
        condition: which messages.
        clock: bounds the time.

    Raises:
        UsageError: the query does not fit.
        UnknownTopicError: no broker has the topic.
    """
    until_s = clock.stopwatch() + query.seconds

    def is_late() -> bool:
        return clock.stopwatch() >= until_s

    cursors = await _cursors(reader, topic, query)
    look = _Look(reader, cursors)
    wants_newest = query.cursor is None and query.start == LATEST
    found: deque[ReceivedMessage] = deque()
    passed_over: dict[MessageQueue, int] = {}
    scanned = size = 0
    stopped: Stop = "end" if await look.begin(is_late) else "time"
    while stopped == "end" and not look.is_at_end:
        if len(found) == query.limit and not wants_newest:
            stopped = "limit"
        elif size > FOUND_SIZE_MAX:
            stopped = "size"
        elif scanned == query.scan:
            stopped = "scan"
        elif is_late():
            stopped = "time"
        else:
            message = await look.take()
            scanned += 1
            if await condition.fits(message):
                found.append(message)
                size += len(message.body)
            if len(found) > query.limit:  # of the newest ones: a newer one has come up
                left_out = found.popleft()
                size -= len(left_out.body)
                queue = MessageQueue(topic, left_out.broker_name, left_out.queue_id)
                passed_over[queue] = left_out.queue_offset + 1
    queues = [
        ScannedQueue(
            broker=cursor.queue.broker_name,
            queue=cursor.queue.queue_id,
            begin=cursor.begin,
            end=cursor.offset,
            left=cursor.end - cursor.offset,
        )
        for cursor in cursors
    ]
    if not wants_newest:
        text = None if stopped == "end" else _encode(cursors)
        return Found(list(found), scanned, stopped, queues, text)
    messages = sorted(found, key=_newest_first)
    if stopped != "end":
        return Found(messages, scanned, stopped, queues, _encode(cursors))
    older = [_Place(c.queue.broker_name, c.queue.queue_id, passed_over.get(c.queue, c.begin))
             for c in cursors]  # fmt: skip
    has_older = any(place.offset > c.first for place, c in zip(older, cursors, strict=True))
    return Found(messages, scanned, stopped, queues, None, _text(older) if has_older else None)


def _newest_first(message: ReceivedMessage) -> tuple[int, int]:
    return -message.store_timestamp, -message.queue_offset


async def _cursors(reader: PullConsumer, topic: str, query: BrowseQuery) -> list[_Cursor]:
    if query.cursor is not None:
        places = _decode(query.cursor)
        named = [(MessageQueue(topic, each.broker, each.queue), each.offset) for each in places]
        return [_Cursor(queue, offset, await reader.max_offset(queue)) for queue, offset in named]
    if query.before is not None:
        if query.start != LATEST:
            raise UsageError("before goes with the start latest: leave one of the two out")
        named = [
            (MessageQueue(topic, each.broker, each.queue), each.offset)
            for each in _decode(query.before)
        ]
        firsts = [await reader.min_offset(queue) for queue, _ in named]
        return [
            _Cursor(queue, min(max(first, end - query.limit), end), end, first)
            for (queue, end), first in zip(named, firsts, strict=True)
        ]
    queues: Sequence[MessageQueue] = await reader.queues(topic)
    if query.queue is not None:
        wanted = queue_named(topic, query.queue)
        if wanted not in queues:
            raise UsageError(f"{topic} has no queue {query.queue}")
        queues = [wanted]
    return [await _cursor(reader, queue, query) for queue in queues]


async def _cursor(reader: PullConsumer, queue: MessageQueue, query: BrowseQuery) -> _Cursor:
    first, end = await reader.min_offset(queue), await reader.max_offset(queue)
    start = query.start
    if start == "earliest":
        offset = first
    elif start == LATEST:
        offset = max(first, end - query.limit)
    elif start.isdecimal() and query.queue is not None:
        offset = min(max(int(start), first), end)
    else:
        offset = await reader.search_offset(queue, time_ms(start))
    return _Cursor(queue, offset, end, first)


def time_ms(start: str, what: str = "start") -> int:
    """Reads a time to start at, in milliseconds since the epoch.

    Args:
        start: ``@`` and milliseconds, or a time of UTC unless it says another.
        what: its name in an error.

    Raises:
        UsageError: it is none.
    """
    if start.startswith("@") and start[1:].isdecimal() and len(start) < 20:
        return int(start[1:])
    try:
        if "-" not in start:
            raise ValueError(start)
        time = datetime.fromisoformat(start)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return max(int(time.timestamp() * 1000), 0)
    except (ValueError, OverflowError) as e:
        raise UsageError(
            f"{what} is {start!r}: write earliest, latest, @ and milliseconds since the epoch, a "
            f"time as 2026-11-25T10:00 (UTC), or an offset beside a queue"
        ) from e


def _encode(cursors: Sequence[_Cursor]) -> str:
    places = [
        _Place(cursor.queue.broker_name, cursor.queue.queue_id, cursor.offset) for cursor in cursors
    ]
    return _text(places)


def cursor_at(offsets: Sequence[tuple[MessageQueue, int]]) -> str:
    """Makes the cursor of a look that begins at these offsets."""
    return _text([_Place(queue.broker_name, queue.queue_id, offset) for queue, offset in offsets])


def _text(places: list[_Place]) -> str:
    return msgspec.json.encode(places).decode()


def _decode(text: str) -> list[_Place]:
    try:
        return msgspec.json.decode(text, type=list[_Place])
    except msgspec.MsgspecError as e:
        raise UsageError(f"the cursor is not of an answer of this API: {e}") from e
