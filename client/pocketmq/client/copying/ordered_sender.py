"""Sending many messages in order within each queue, and queues side by side."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from pocketmq.client.errors import BatchFailedError, SendFailedError
from pocketmq.client.producers.producer import Producer
from pocketmq.protocol.errors import PocketMQError, UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, MessageQueue
from pocketmq.protocol.names.names import RETRY_PREFIX

T = TypeVar("T")

BATCH_MESSAGES_MAX = 128
BATCH_SIZE_MAX = 256 * 1024
"""Bytes of the bodies of a batch; a larger message goes by itself."""

PENDING_MESSAGES_MAX = 4096
PENDING_SIZE_MAX = 16 * 1024 * 1024
"""Bytes of bodies that were put and are not stored yet; one message always fits."""

ATTEMPTS_MAX = 3
"""Attempts to send what no broker has refused."""

RETRY_PAUSE_S = 1.0

_ALONE = (props.DELAY, *props.TIMER_PROPERTIES)
"""With these properties a message cannot be part of a batch."""

OnStored = Callable[[Sequence[T]], object]
"""Called with the tokens of messages that are stored."""

OnFailed = Callable[[T, PocketMQError], bool]
"""Called with a message that could not be sent; returns whether to go on with others."""


class _Waiting(NamedTuple, Generic[T]):
    message: Message
    token: T

    @property
    def is_alone(self) -> bool:
        properties = self.message.properties
        return any(name in properties for name in _ALONE) or self.message.topic.startswith(
            RETRY_PREFIX
        )


class OrderedSender(Generic[T]):
    """Sends messages in order within each queue, in batches as they gather.

    While a queue's batch is under way, the next one gathers: a slow trickle is sent at once, a
    flood in large batches. A batch that is not answered is sent again, so a message may be stored
    twice.

    Args:
        producer: sends.
        on_stored: called with what is stored.
        on_failed: called with what is not; by default the first failure ends everything.
    """

    def __init__(self, producer: Producer, on_stored: OnStored[T], on_failed: OnFailed[T]) -> None:
        self._producer = producer
        self._clock = producer.instance.clock
        self._on_stored, self._on_failed = on_stored, on_failed
        self._queues: dict[MessageQueue, deque[_Waiting[T]]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._pending_messages = self._pending_size = 0
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._is_stopped = False

    async def put(self, message: Message, queue: MessageQueue, token: T) -> bool:
        """Adds a message to be sent; waits while too many are under way.

        Args:
            message: to send.
            queue: where to.
            token: what the callbacks get for it.

        Returns:
            False after a failure that ended everything: the message is not sent.
        """
        await self._has_room.wait()
        if self._is_stopped:
            return False
        self._count(message, 1)
        queued = self._queues.get(queue)
        if queued is None:
            queued = self._queues[queue] = deque()
            task = asyncio.create_task(self._run(queue, queued), name=f"send to {queue}")
            self._running.add(task)
            task.add_done_callback(self._ended)
        queued.append(_Waiting(message, token))
        return True

    async def flush(self) -> None:
        """Waits until every message that was put is stored or has failed."""
        while self._running:
            await asyncio.gather(*self._running)

    async def close(self) -> None:
        """Stops sending; messages that were not sent yet are dropped. Idempotent."""
        self._stop()
        await self.flush()

    def _stop(self) -> None:
        self._is_stopped = True
        self._has_room.set()

    def _count(self, message: Message, change: int) -> None:
        self._pending_messages += change
        self._pending_size += change * len(message.body)
        is_full = (
            self._pending_messages >= PENDING_MESSAGES_MAX or self._pending_size >= PENDING_SIZE_MAX
        )
        if is_full and not self._is_stopped:
            self._has_room.clear()
        else:
            self._has_room.set()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._stop()

    async def _run(self, queue: MessageQueue, queued: deque[_Waiting[T]]) -> None:
        while queued and not self._is_stopped:
            part = _next_part(queued)
            await self._send(queue, part)
            for waiting in part:
                self._count(waiting.message, -1)
        del self._queues[queue]

    async def _send(self, queue: MessageQueue, part: list[_Waiting[T]]) -> None:
        try:
            await self._attempt(queue, part)
        except BatchFailedError as e:
            self._stored(part[: -e.unsent_count])
            self._failed(part[-e.unsent_count :], e)
        except UsageError as e:
            if len(part) == 1:
                self._failed(part, e)
                return
            for waiting in part:  # one of them cannot be sent: which?
                if not self._is_stopped:
                    await self._send(queue, [waiting])
        except PocketMQError as e:
            self._failed(part, e)
        else:
            self._stored(part)

    async def _attempt(self, queue: MessageQueue, part: list[_Waiting[T]]) -> None:
        for attempt in range(1, ATTEMPTS_MAX + 1):
            try:
                if len(part) == 1:
                    await self._producer.send(part[0].message, queue=queue)
                else:
                    await self._producer.send_batch([w.message for w in part], queue=queue)
                return
            except SendFailedError:
                if attempt == ATTEMPTS_MAX or self._is_stopped:
                    raise
                await self._clock.sleep(RETRY_PAUSE_S)

    def _stored(self, part: Sequence[_Waiting[T]]) -> None:
        if part:
            self._on_stored([waiting.token for waiting in part])

    def _failed(self, part: Sequence[_Waiting[T]], error: PocketMQError) -> None:
        for waiting in part:
            if not self._on_failed(waiting.token, error):
                self._stop()


def _next_part(queued: deque[_Waiting[T]]) -> list[_Waiting[T]]:
    """Takes the messages of the next request from a queue's waiting ones."""
    part = [queued.popleft()]
    size = len(part[0].message.body)
    if part[0].is_alone:
        return part
    while queued and len(part) < BATCH_MESSAGES_MAX:
        size += len(queued[0].message.body)
        if size > BATCH_SIZE_MAX or queued[0].is_alone:
            break
        part.append(queued.popleft())
    return part
