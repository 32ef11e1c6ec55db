"""What `pocketmq tail`, `record` and `consume` read: queues of a topic, side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from typing_extensions import Self

from pocketmq.cli.output import note
from pocketmq.cli.pipes.start_points import StartPoint
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


class _Lane:
    """One queue that is followed.

    Attributes:
        queue: which.
        offset: what is pulled next.
        end: where to stop; None to go on for ever.
        messages: pulled and not yet taken.
        is_idle: the broker had nothing more when it was last asked, or it is away.
        has_room: cleared while enough is waiting.
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
        """Whether a message may come that is older than what waits of other queues."""
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
        commits: whether offsets are committed, and where the group stands is where it begins.
    """

    def __init__(
        self, consumer: PullConsumer, clock: Clock, *, expression: Expression, commits: bool
    ) -> None:
        self._consumer, self._clock = consumer, clock
        self._expression, self._commits = expression, commits
        self._lanes: list[_Lane] = []
        self._waited_for: set[_Lane] = set()
        self._heads: list[tuple[int, MessageQueue, int, _Lane]] = []
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
        self._lanes = await asyncio.gather(*(self._lane(q, start, to_end) for q in chosen))
        share = BUFFER_SIZE_MAX // (2 * len(self._lanes) or 1)
        self._pull_size = max(PULL_SIZE_MIN, min(PULL_SIZE_MAX, share))
        for lane in self._lanes:
            if not lane.is_finished:
                self._waited_for.add(lane)
                self._tasks.spawn(self._follow(lane), str(lane.queue))

    async def next(self, timeout_s: float = 0) -> ReceivedMessage | None:
        """The next message, None behind the end or after `stop`; 0 seconds wait for ever.

        Raises:
            TimeoutError: nothing came.
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
            if not self._heads and all(lane.is_finished for lane in self._lanes):
                return None
            self._changed.clear()
            await self._changed.wait()

    def stop(self) -> None:
        """Lets `next` give nothing more, whatever is there. Idempotent."""
        self._is_stopped = True
        self._changed.set()

    @property
    def is_waiting(self) -> bool:
        """Whether nothing more is there at the moment."""
        return not self._heads

    def _take(self) -> ReceivedMessage:
        lane = heappop(self._heads)[-1]
        message = lane.messages.popleft()
        self._show(lane)
        if len(lane.messages) <= PULL_MESSAGES_MAX:
            lane.has_room.set()
        return message

    def _show(self, lane: _Lane) -> None:
        """Puts a lane's first message among those that may be taken."""
        if lane.messages:
            head = lane.messages[0]
            place = (head.store_timestamp, lane.queue, head.queue_offset, lane)
            heappush(self._heads, place)
        self._settle(lane)

    def _settle(self, lane: _Lane) -> None:
        if lane.may_surprise:
            self._waited_for.add(lane)
        else:
            self._waited_for.discard(lane)
        self._changed.set()

    # -- offsets ------------------------------------------------------------------------------

    async def mark_done(self) -> None:
        """What `next` gave last is done with: a group goes on behind it."""
        message = self._last
        if message is None or not self._commits:
            return
        self._done[message.queue] = message.queue_offset + 1
        self._done_messages += 1
        if self.is_waiting or self._done_messages >= UNCOMMITTED_MESSAGES_MAX:
            await self._commit()

    async def _commit(self) -> None:
        """Commits what is done; what a broker that is away should store stays for the next time."""
        self._done_messages = 0
        for queue, offset in list(self._done.items()):
            try:
                await self._consumer.commit(queue, offset)
            except OperatingError as e:
                note(f"the offset {offset} of {queue} is not committed: {e}")
            else:
                del self._done[queue]

    async def _lane(self, queue: MessageQueue, start: StartPoint, to_end: bool) -> _Lane:
        committed = await self._consumer.committed_offset(queue) if self._commits else None
        end = await self._consumer.max_offset(queue) if to_end else None
        if committed is None:
            committed = await start.offset_in(self._consumer, queue)
        return _Lane(queue, committed, end)

    # -- pulling ------------------------------------------------------------------------------

    async def _follow(self, lane: _Lane) -> None:
        while not lane.is_finished:
            await lane.has_room.wait()
            try:
                result = await self._consumer.pull(
                    lane.queue,
                    lane.offset,
                    PULL_MESSAGES_MAX,
                    expression=self._expression,
                    max_bytes=self._pull_size,
                    hold_ms=HOLD_MS if lane.is_idle else 0,
                )
            except PocketMQError as e:
                if not _passes(e):
                    self._error = e
                    self._changed.set()
                    return
                self._went(lane, e)
                await self._clock.sleep(RETRY_PAUSE_S)
                continue
            self._came(lane)
            had_messages = bool(lane.messages)
            lane.take_in(result)
            if had_messages:
                self._settle(lane)
            else:
                self._show(lane)

    def _went(self, lane: _Lane, error: PocketMQError) -> None:
        """Tells it once a broker, not once a queue."""
        name = lane.queue.broker_name
        if not any(other.is_away for other in self._lanes if other.queue.broker_name == name):
            note(f"waiting for {name}: {error}")
        lane.is_away = lane.is_idle = True
        self._settle(lane)

    def _came(self, lane: _Lane) -> None:
        if not lane.is_away:
            return
        lane.is_away = False
        name = lane.queue.broker_name
        if not any(other.is_away for other in self._lanes if other.queue.broker_name == name):
            note(f"{name} answers again")


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
