"""What `pocketmq consume` reads: all queues of a topic, side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from typing_extensions import Self

from pocketmq.cli.output import note
from pocketmq.protocol.errors import (
    BusyError,
    OperatingError,
    PocketMQError,
    UnavailableError,
)
from pocketmq.transport.clock import Clock, within
from pocketmq.transport.errors import (
    CallTimeoutError,
    ConnectError,
    ConnectionClosedError,
    TooMuchRequestError,
)
from pocketmq.transport.tasks import Tasks

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer
    from pocketmq.client.message_selector import Expression
    from pocketmq.protocol.message import ReceivedMessage

HOLD_MS = 10_000
"""How long a broker keeps a pull that finds nothing."""

BUFFER_MESSAGES_MAX = 1024
"""Messages that were pulled and not yet taken."""

UNCOMMITTED_MESSAGES_MAX = 1024
"""Messages that may be shown a second time when the process is killed under load."""

RETRY_PAUSE_S = 1.0
"""Between two questions to a broker that is away."""


class TopicFeed:
    """A topic's messages as they come, in order within each queue.

    A broker that goes away is waited for, because people leave `consume` running; any other error
    ends the feed. A group's offsets are committed for what was marked as done, when nothing more
    is waiting and at the end.

    Args:
        consumer: pulls, and commits for its group.
        clock: for all waiting.
        expression: which messages are wanted: tags, or a `MessageSelector`.
        commits: whether offsets are committed.
    """

    def __init__(
        self, consumer: PullConsumer, clock: Clock, *, expression: Expression, commits: bool
    ) -> None:
        self._consumer, self._clock = consumer, clock
        self._expression, self._commits = expression, commits
        self._arrivals: asyncio.Queue[tuple[MessageQueue, ReceivedMessage] | PocketMQError] = (
            asyncio.Queue(BUFFER_MESSAGES_MAX)
        )
        self._done: dict[MessageQueue, int] = {}
        self._done_messages = 0
        self._last: tuple[MessageQueue, ReceivedMessage] | None = None
        self._away: dict[str, int] = {}
        self._tasks = Tasks()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._tasks.close()
        await self._commit()

    async def start(self, topic: str, *, from_beginning: bool) -> None:
        """Follows every queue of the topic from where the group stopped, or from an end.

        Raises:
            RouteError, NoNameServerError, ResponseError: there is nothing to follow.
        """
        for queue in await self._consumer.queues(topic):
            offset = await self._first_offset(queue, from_beginning)
            self._tasks.spawn(self._follow(queue, offset), str(queue))

    async def next(self, timeout_s: float) -> ReceivedMessage:
        """The next message; 0 seconds wait for ever.

        Raises:
            TimeoutError: nothing came.
            PocketMQError: a queue cannot be followed any further.
        """
        if not timeout_s:
            arrival = await self._arrivals.get()
        else:
            arrival = await within(self._clock, timeout_s, self._arrivals.get())
        if isinstance(arrival, PocketMQError):
            raise arrival
        self._last = arrival
        return arrival[1]

    async def mark_done(self) -> None:
        """What `next` gave last is done with: a group goes on behind it."""
        if self._last is None or not self._commits:
            return
        queue, message = self._last
        self._done[queue] = message.queue_offset + 1
        self._done_messages += 1
        if self._arrivals.empty() or self._done_messages >= UNCOMMITTED_MESSAGES_MAX:
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

    async def _first_offset(self, queue: MessageQueue, from_beginning: bool) -> int:
        if self._commits:
            committed = await self._consumer.committed_offset(queue)
            if committed is not None:
                return committed
        if from_beginning:
            return await self._consumer.min_offset(queue)
        return await self._consumer.max_offset(queue)

    async def _follow(self, queue: MessageQueue, offset: int) -> None:
        is_away = False
        while True:
            try:
                result = await self._consumer.pull(
                    queue, offset, expression=self._expression, hold_ms=HOLD_MS
                )
            except PocketMQError as e:
                if not _passes(e):
                    await self._arrivals.put(e)
                    return
                if not is_away:
                    is_away = True
                    self._went(queue.broker_name, e)
                await self._clock.sleep(RETRY_PAUSE_S)
                continue
            if is_away:
                is_away = False
                self._came(queue.broker_name)
            for message in result.messages:
                await self._arrivals.put((queue, message))
            offset = result.next_offset

    def _went(self, broker_name: str, error: PocketMQError) -> None:
        """Tells it once a broker, not once a queue."""
        queues = self._away.get(broker_name, 0)
        self._away[broker_name] = queues + 1
        if not queues:
            note(f"waiting for {broker_name}: {error}")

    def _came(self, broker_name: str) -> None:
        self._away[broker_name] -= 1
        if not self._away[broker_name]:
            note(f"{broker_name} answers again")


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
