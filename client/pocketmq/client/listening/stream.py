"""The listener behind ``async for message in consumer``."""

from __future__ import annotations

import asyncio
from collections import deque

from pocketmq.client.results import ConsumeResult, RetryLater
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage

Outcome = ConsumeResult | RetryLater


class MessageStream:
    """Holds each message until the application acknowledges it or sends it back.

    The messages that are held, fetched or not, are bounded by the dispatcher's concurrency.
    """

    def __init__(self) -> None:
        self._open: dict[int, asyncio.Future[Outcome]] = {}
        self._buffer: deque[ReceivedMessage] = deque()
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_closed = False

    async def __call__(self, messages: list[ReceivedMessage]) -> Outcome:
        """Takes one message, and returns when it was acknowledged or sent back."""
        (message,) = messages
        outcome: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._open[id(message)] = outcome
        self._buffer.append(message)
        self._wake_one()
        try:
            return await outcome
        finally:
            del self._open[id(message)]

    async def next(self) -> ReceivedMessage:
        """Returns the next message; callers are served in order.

        Raises:
            StopAsyncIteration: the stream is closed.
        """
        while not self._buffer:
            if self._is_closed:
                raise StopAsyncIteration
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled() and self._buffer:
                    self._wake_one()  # it was this one's turn, but it does not want it any more
                raise
        return self._buffer.popleft()

    def settle(self, message: ReceivedMessage, outcome: Outcome) -> None:
        """Acknowledges a message or sends it back.

        Raises:
            UsageError: that was said before, or the consumer was closed meanwhile.
        """
        waiting = self._open.get(id(message))
        if waiting is None or waiting.done():
            raise UsageError(
                f"message {message.msg_id} is not held any more: it was acknowledged or sent back "
                f"before, or the consumer was closed (then it comes again)"
            )
        waiting.set_result(outcome)

    def close(self) -> None:
        """Ends the iteration; messages that were not acknowledged come again. Idempotent."""
        self._is_closed = True
        self._buffer.clear()
        for outcome in self._open.values():
            outcome.cancel()
        while self._waiting:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return
