"""Calls of a plain listener in threads, cheap where the listener is quick."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

from pocketmq.client.application_code import outcome_of
from pocketmq.protocol.messages.message import ReceivedMessage

Batch = list[ReceivedMessage]


class ListenerThreads:
    """Gives batches to a plain listener in threads, and its answers back to the loop.

    A thread takes one batch after the other while there are any, and has a further thread begin
    while others wait: a listener that waits so has as many threads as there are batches, and a
    quick one few, which change seldom. Answers that come together wake the loop once.

    Args:
        listener: a plain function; where it returns a coroutine, that runs on the loop.
        count: of the threads.

    Attributes:
        carries_context: whether threads see the context variables of the caller, as those set by
            hooks.
    """

    def __init__(self, listener: Callable[[Batch], Any], count: int) -> None:
        self._listener = listener
        self.carries_context = False
        self._threads = ThreadPoolExecutor(count, "pocketmq-listener")
        self._waiting: deque[tuple[Batch, asyncio.Future[Any], Context | None]] = deque()
        self._answers: deque[tuple[asyncio.Future[Any], Any, BaseException | None]] = deque()
        # Both are read and set without a lock: one set too late only has a thread, or the loop,
        # look in vain.
        self._is_thread_asked_for = False
        self._is_loop_told = False

    async def __call__(self, batch: Batch) -> object:
        """Returns the listener's answer."""
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((batch, answer, copy_context() if self.carries_context else None))
        if not self._is_thread_asked_for:
            self._ask_for_thread()
        result = await answer
        return await result if inspect.isawaitable(result) else result

    def resize(self, count: int) -> None:
        """Has more threads from now on; what is at work in the old ones ends there."""
        old, self._threads = self._threads, ThreadPoolExecutor(count, "pocketmq-listener")
        old.shutdown(wait=False)
        self._ask_for_thread()

    def close(self) -> None:
        """Begins nothing more; what is at work cannot be ended. Idempotent."""
        self._waiting.clear()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _ask_for_thread(self) -> None:
        self._is_thread_asked_for = True
        self._threads.submit(self._work)

    def _work(self) -> None:
        self._is_thread_asked_for = False
        while True:
            try:
                batch, answer, context = self._waiting.popleft()
            except IndexError:
                return
            if answer.cancelled():
                continue
            if self._waiting and not self._is_thread_asked_for:
                try:
                    self._ask_for_thread()
                except RuntimeError:  # they were replaced or closed meanwhile; this one goes on
                    self._is_thread_asked_for = False
            if context is None:
                outcome = outcome_of(self._listener, batch)
            else:
                outcome = context.run(outcome_of, self._listener, batch)
            self._answers.append((answer, *outcome))
            if not self._is_loop_told:
                self._is_loop_told = True
                answer.get_loop().call_soon_threadsafe(self._give_answers)

    def _give_answers(self) -> None:
        self._is_loop_told = False
        while self._answers:
            answer, result, error = self._answers.popleft()
            if answer.done():
                continue
            if error is None:
                answer.set_result(result)
            else:
                answer.set_exception(error)
