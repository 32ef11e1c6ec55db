"""Follows the queues of a topic side by side, as `pocketmq tail`, `record` and `consume` do."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Self

from pocketmq.client.copying.start_point import StartPoint
from pocketmq.protocol.errors import (
    BusyError,
    OperatingError,
    PocketMQError,
    UnavailableError,
)
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionClosedError,
    TooMuchRequestError,
)

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer, PullResult
    from pocketmq.client.message_selector import Expression
    from pocketmq.protocol.messages.message import ReceivedMessage

log = logging.getLogger("pocketmq.client")

HOLD_MS = 10_000
"""How long a broker keeps a pull that finds nothing."""

PULL_MESSAGES_MAX = 256
"""Messages of one pull; two pulls of each queue may wait to be taken."""

BUFFER_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of all pulls together that may wait to be taken, but for one message of each queue."""

PULL_SIZE_MAX = 256 * 1024
PULL_SIZE_MIN = 4 * 1024

UNCOMMITTED_MESSAGES_MAX = 1024
"""Messages that may be shown a second time when the process is killed under load."""

RETRY_PAUSE_S = 1.0
"""Between two questions to a broker that is away."""


class _QueueCursor:
    """The position of a feed in one queue.

    Attributes:
        queue: the queue.
        offset: the offset to pull next.
        end: the offset to stop at; None to go on for ever.
        messages: messages pulled and not yet taken.
        is_idle: the broker had nothing more when it was last asked, or it is away.
        is_away: the broker does not answer.
        has_room: cleared while enough messages wait to be taken.
    """

    def __init__(self, queue: MessageQueue, offset: int, end: int | None) -> None:
        self.queue, self.offset, self.end = queue, offset, end
        self.messages: deque[ReceivedMessage] = deque()
        self.is_idle = self.is_away = False
        self.has_room = asyncio.Event()
        self.has_room.set()

    @property
    def is_finished(self) -> bool:
        return self.end is not None and self.offset >= self.end

    @property
    def may_surprise(self) -> bool:
        """Whether a message may come that is older than those that wait in other cursors."""
        return not (self.messages or self.is_idle or self.is_finished)

    def take_in(self, result: PullResult) -> None:
        end = self.end
        self.messages.extend(
            result.messages if end is None else (m for m in result.messages if m.queue_offset < end)
        )
        self.offset = result.next_offset
        self.is_idle = self.offset >= result.max_offset
        if self.is_idle and end is not None:
            self.end = min(end, self.offset)  # a broker that lost messages has no more of them
        if len(self.messages) > PULL_MESSAGES_MAX:
            self.has_room.clear()


class TopicFeed:
    """A topic's messages as they come, in order within each queue.

    Between queues the oldest comes first, as far as messages are there already. A broker that goes
    away is waited for, because people leave `tail` running; any other error ends the feed. A
    group's offsets are committed for what was marked as done, when nothing more is waiting and at
    the end.

    Args:
        consumer: pulls, and commits for its group.
        clock: for all waiting.
        expression: which messages are wanted: tags, or a `MessageSelector`.
        commits: whether the feed begins at the offsets of the group and commits them.
        on_note: called with one line for people when a broker goes away or is back, and when an
            offset cannot be committed.
    """

    def __init__(
        self,
        consumer: PullConsumer,
        clock: Clock,
        *,
        expression: Expression,
        commits: bool,
        on_note: Callable[[str], object] = log.warning,
    ) -> None:
        self._consumer, self._clock = consumer, clock
        self._expression, self._commits, self._on_note = expression, commits, on_note
        self._cursors: list[_QueueCursor] = []
        self._waited_for: set[_QueueCursor] = set()
        self._heads: list[tuple[int, MessageQueue, int, _QueueCursor]] = []
        self._error: PocketMQError | None = None
        self._is_stopped = False
        self._changed = asyncio.Event()
        self._done: dict[MessageQueue, int] = {}
        self._done_messages = 0
        self._last: ReceivedMessage | None = None
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._tasks.close()
        await self._commit()

    async def start(
        self,
        topic: str,
        start: StartPoint,
        *,
        queues: Collection[MessageQueue] | None = None,
        to_end: bool = False,
    ) -> None:
        """Follows queues of the topic from where the group stopped, or from a point.

        Args:
            topic: its name.
            start: where to begin.
            queues: only these.
            to_end: only up to the messages that are there now.

        Raises:
            RouteError, NoNameServerError, ResponseError: there is nothing to follow.
        """
        chosen = await self._consumer.queues(topic) if queues is None else sorted(queues)
        self._cursors = await asyncio.gather(*(self._cursor(q, start, to_end) for q in chosen))
        size = BUFFER_SIZE_MAX // (2 * len(self._cursors) or 1)
        self._pull_size = max(PULL_SIZE_MIN, min(PULL_SIZE_MAX, size))
        for cursor in self._cursors:
            if not cursor.is_finished:
                self._waited_for.add(cursor)
                self._tasks.spawn(self._follow(cursor), str(cursor.queue))

    async def next(self, timeout_s: float = 0) -> ReceivedMessage | None:
        """Returns the next message; None behind the end or after `stop`. 0 seconds wait for ever.

        Raises:
            TimeoutError: no message came in time.
            PocketMQError: a queue cannot be followed any further.
        """
        if not timeout_s:
            return await self._next()
        return await within(self._clock, timeout_s, self._next())

    async def _next(self) -> ReceivedMessage | None:
        while True:
            if self._error is not None:
                raise self._error
            if self._is_stopped:
                return None
            if self._heads and not self._waited_for:
                self._last = self._take()
                return self._last
            if not self._heads and all(cursor.is_finished for cursor in self._cursors):
                return None
            self._changed.clear()
            await self._changed.wait()

    def stop(self) -> None:
        """Makes `next` return None from now on. Idempotent."""
        self._is_stopped = True
        self._changed.set()

    @property
    def is_waiting(self) -> bool:
        """Whether no message waits to be taken at the moment."""
        return not self._heads

    def _take(self) -> ReceivedMessage:
        cursor = heappop(self._heads)[-1]
        message = cursor.messages.popleft()
        self._show(cursor)
        if len(cursor.messages) <= PULL_MESSAGES_MAX:
            cursor.has_room.set()
        return message

    def _show(self, cursor: _QueueCursor) -> None:
        """Offers the first message of a cursor to `next`."""
        if cursor.messages:
            head = cursor.messages[0]
            heappush(self._heads, (head.store_timestamp, cursor.queue, head.queue_offset, cursor))
        self._settle(cursor)

    def _settle(self, cursor: _QueueCursor) -> None:
        if cursor.may_surprise:
            self._waited_for.add(cursor)
        else:
            self._waited_for.discard(cursor)
        self._changed.set()

    # -- offsets ------------------------------------------------------------------------------

    async def mark_done(self) -> None:
        """Marks the last message of `next` as handled: the group goes on behind it."""
        message = self._last
        if message is None or not self._commits:
            return
        self._done[message.queue] = message.queue_offset + 1
        self._done_messages += 1
        if self.is_waiting or self._done_messages >= UNCOMMITTED_MESSAGES_MAX:
            await self._commit()

    async def _commit(self) -> None:
        """Commits offsets of handled messages; keeps those of a broker that is away for later."""
        self._done_messages = 0
        for queue, offset in list(self._done.items()):
            try:
                await self._consumer.commit(queue, offset)
            except OperatingError as e:
                self._on_note(f"the offset {offset} of {queue} is not committed: {e}")
            else:
                del self._done[queue]

    async def _cursor(self, queue: MessageQueue, start: StartPoint, to_end: bool) -> _QueueCursor:
        committed = await self._consumer.committed_offset(queue) if self._commits else None
        end = await self._consumer.max_offset(queue) if to_end else None
        if committed is None:
            committed = await start.offset_in(self._consumer, queue)
        return _QueueCursor(queue, committed, end)

    # -- pulling ------------------------------------------------------------------------------

    async def _follow(self, cursor: _QueueCursor) -> None:
        while not cursor.is_finished:
            await cursor.has_room.wait()
            try:
                result = await self._consumer.pull(
                    cursor.queue,
                    cursor.offset,
                    PULL_MESSAGES_MAX,
                    expression=self._expression,
                    max_bytes=self._pull_size,
                    hold_ms=HOLD_MS if cursor.is_idle else 0,
                )
            except PocketMQError as e:
                if not _passes(e):
                    self._error = e
                    self._changed.set()
                    return
                self._broker_left(cursor, e)
                await self._clock.sleep(RETRY_PAUSE_S)
                continue
            self._broker_answered(cursor)
            had_messages = bool(cursor.messages)
            cursor.take_in(result)
            if had_messages:
                self._settle(cursor)
            else:
                self._show(cursor)

    def _broker_left(self, cursor: _QueueCursor, error: PocketMQError) -> None:
        """Notes that a broker is away, once for all of its queues."""
        name = cursor.queue.broker_name
        if not any(other.is_away for other in self._cursors if other.queue.broker_name == name):
            self._on_note(f"waiting for {name}: {error}")
        cursor.is_away = cursor.is_idle = True
        self._settle(cursor)

    def _broker_answered(self, cursor: _QueueCursor) -> None:
        if not cursor.is_away:
            return
        cursor.is_away = False
        name = cursor.queue.broker_name
        if not any(other.is_away for other in self._cursors if other.queue.broker_name == name):
            self._on_note(f"{name} answers again")


def _passes(error: PocketMQError) -> bool:
    """Whether waiting can help."""
    from pocketmq.client.errors import BrokerDownError, NoNameServerError

    return isinstance(
        error,
        (
            ConnectError,
            ConnectionClosedError,
            CallTimeoutError,
            TooMuchRequestError,
            BusyError,
            UnavailableError,
            BrokerDownError,
            NoNameServerError,
        ),
    )
