"""Messages that were pulled and wait to be polled."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock


class PollBuffer:
    """Keeps the queues that have messages to hand out, in the order in which they are served.

    Args:
        clock: for waiting.
        is_paused: whether a queue hands out nothing now; it is offered again afterwards.
    """

    def __init__(self, clock: Clock, is_paused: Callable[[ProcessQueue], bool]) -> None:
        self._clock, self._is_paused = clock, is_paused
        self._line: deque[ProcessQueue] = deque()
        self._waiting: set[asyncio.Future[None]] = set()
        self.is_closed = False

    def offer(self, messages: ProcessQueue) -> None:
        """Adds a queue that may have messages to hand out."""
        if messages.can_hand_out and not messages.is_ready:
            messages.is_ready = True
            self._line.append(messages)
            self._wake()

    def take(self, count_max: int) -> tuple[ProcessQueue, list[ReceivedMessage]] | None:
        """Takes the next messages of the first queue, in offset order; None without any.

        They are finished for their queue: what is polled is the application's.
        """
        while self._line:
            messages = self._line.popleft()
            messages.is_ready = False
            if not messages.can_hand_out or self._is_paused(messages):
                continue
            batch = messages.take(count_max)
            messages.finish(batch)
            self.offer(messages)
            return messages, batch
        return None

    async def wait(self, timeout_s: float | None) -> None:
        """Waits until a queue is offered, the time is over or the buffer is closed."""
        if self._line or self.is_closed:
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = None
        if timeout_s is not None:
            timer = self._clock.call_later(timeout_s, _wake, waiter)
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)
            if timer is not None:
                timer.cancel()

    def close(self) -> None:
        """Hands nothing out any more, and ends all waits. Idempotent."""
        self.is_closed = True
        self._line.clear()
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiting:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
