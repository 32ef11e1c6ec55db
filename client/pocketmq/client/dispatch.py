"""Handing messages to the listener: how many at once, in which order, and what on failure."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pocketmq.client.process_queue import ProcessQueue
from pocketmq.client.results import ConsumeResult
from pocketmq.protocol.message import ReceivedMessage
from pocketmq.transport.clock import Clock
from pocketmq.transport.tasks import Tasks

log = logging.getLogger("pocketmq.client")

YIELD_AFTER = 64
"""A listener that never waits must let pulls and heartbeats through after so many batches."""

LOGGED_MAX = 1024
"""Failing messages that are remembered as logged."""

Listener = Callable[[list[ReceivedMessage]], Any]
"""Handles a batch. A coroutine function runs on the loop, a plain function in a thread.

None or `ConsumeResult.SUCCESS` finishes the batch; `ConsumeResult.RETRY` or an exception does not.
"""

AsyncListener = Callable[[list[ReceivedMessage]], Awaitable[Any]]


class LocalRetry:
    """What happens to a batch that failed: it comes again here, after a pause, for ever.

    The one place that decides on failures; nothing is skipped, and while a batch waits the
    queue's offset stays where it is.

    Args:
        clock: for the pause.
        delay_ms: the pause.
        on_put_back: called when the batch can be taken again.
    """

    def __init__(
        self, clock: Clock, delay_ms: float, on_put_back: Callable[[ProcessQueue], object]
    ) -> None:
        self._clock, self._delay_ms, self._on_put_back = clock, delay_ms, on_put_back

    def failed(self, queue: ProcessQueue, batch: Sequence[ReceivedMessage]) -> None:
        """Takes charge of a batch that the listener did not handle."""
        self._clock.call_later(self._delay_ms / 1000, self._put_back, queue, batch)

    def _put_back(self, queue: ProcessQueue, batch: Sequence[ReceivedMessage]) -> None:
        queue.put_back(batch)
        self._on_put_back(queue)


class Dispatcher:
    """Workers that take batches from the queues in turn and give them to the listener.

    Args:
        listener: handles a batch.
        clock: for pauses.
        concurrency: how many batches are handled at once.
        batch_max: messages in a batch.
        retry_delay_ms: pause before a failed batch comes again.
        on_finished: called after each batch, with its queue.
    """

    def __init__(
        self,
        listener: Listener,
        clock: Clock,
        *,
        concurrency: int,
        batch_max: int,
        retry_delay_ms: float,
        on_finished: Callable[[ProcessQueue], object],
    ) -> None:
        self._concurrency, self._batch_max = concurrency, batch_max
        self._on_finished = on_finished
        self._retry = LocalRetry(clock, retry_delay_ms, self.offer)
        self._ready: deque[ProcessQueue] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._at_work = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._is_stopping = False
        self._tasks = Tasks()
        self._logged: dict[str, None] = {}
        self._threads: ThreadPoolExecutor | None = None
        self._listener: AsyncListener
        if inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
            getattr(listener, "__call__", None)  # noqa: B004 (an object with an async __call__)
        ):
            self._listener = listener
        else:
            self._threads = ThreadPoolExecutor(concurrency, "pocketmq-listener")
            self._plain_listener = listener
            self._listener = self._in_thread

    def start(self) -> None:
        """Starts the workers."""
        for number in range(self._concurrency):
            self._tasks.spawn(self._work(), f"listener {number}")

    def offer(self, queue: ProcessQueue) -> None:
        """Tells that a queue may have something to hand out."""
        if queue.is_ready or not queue.can_hand_out:
            return
        queue.is_ready = True
        self._ready.append(queue)
        self._wake_one()

    async def close(self, timeout_s: float, clock: Clock) -> None:
        """Hands nothing more out, waits for what is at work, and ends the workers. Idempotent.

        Args:
            timeout_s: after so long, what is still at work is cancelled and counts as unfinished.
            clock: by which that is measured.
        """
        self._is_stopping = True
        self._ready.clear()
        if not self._quiet.is_set():
            timer = clock.call_later(timeout_s, self._quiet.set)
            await self._quiet.wait()
            timer.cancel()
        await self._tasks.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    async def _work(self) -> None:
        ready = self._ready
        loop = asyncio.get_running_loop()
        handled = 0
        while True:
            while not ready:
                idle: asyncio.Future[None] = loop.create_future()
                self._idle.append(idle)
                await idle
            queue = ready.popleft()
            queue.is_ready = False
            if self._is_stopping or not queue.can_hand_out:
                continue
            batch = queue.take(self._batch_max)
            self.offer(queue)
            await self._handle(queue, batch)
            handled += 1
            if handled % YIELD_AFTER == 0:
                turn: asyncio.Future[None] = loop.create_future()
                loop.call_soon(_wake, turn)
                await turn

    async def _handle(self, queue: ProcessQueue, batch: list[ReceivedMessage]) -> None:
        self._at_work += 1
        self._quiet.clear()
        error: BaseException | None = None
        result: object = None
        try:
            result = await self._listener(batch)
        except asyncio.CancelledError as e:
            if self._is_stopping:
                raise
            error = e  # the listener cancelled something of its own; this worker goes on
        except Exception as e:  # noqa: BLE001 (the border to the application)
            error = e
        finally:
            self._at_work -= 1
            if not self._at_work:
                self._quiet.set()
        if error is None and result is not ConsumeResult.RETRY:
            if self._logged:
                self._recovered(batch)
            queue.finish(batch)
            self._on_finished(queue)
            self.offer(queue)
        elif not queue.dropped:
            self._log_once(queue, batch, error)
            self._retry.failed(queue, batch)

    async def _in_thread(self, batch: list[ReceivedMessage]) -> object:
        loop = asyncio.get_running_loop()
        result = await loop.run_in_executor(self._threads, self._plain_listener, batch)
        # A plain function may return a coroutine: lambda messages: handle(messages).
        return await result if inspect.isawaitable(result) else result

    def _log_once(
        self, queue: ProcessQueue, batch: Sequence[ReceivedMessage], error: BaseException | None
    ) -> None:
        first = batch[0]
        if first.msg_id in self._logged:
            return
        while len(self._logged) >= LOGGED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[first.msg_id] = None
        log.warning(
            "the listener did not handle message %s (%s, offset %d, %d in the batch); it is tried "
            "again until it succeeds",
            first.msg_id,
            queue.queue,
            first.queue_offset,
            len(batch),
            exc_info=error,
        )

    def _recovered(self, batch: Sequence[ReceivedMessage]) -> None:
        self._logged.pop(batch[0].msg_id, None)


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
