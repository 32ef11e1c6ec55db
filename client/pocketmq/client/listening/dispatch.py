"""Handing batches to the listener: how many at once, in which order, and what on failure."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from pocketmq.client.application_code import is_coroutine_function
from pocketmq.client.listening.consume_statistics import ConsumeStatistics
from pocketmq.client.listening.listener_threads import ListenerThreads
from pocketmq.client.log_fields import log_fields
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.results import (
    RETRY_ALL,
    ConsumeResult,
    ListenerAnswer,
    OrderlyResult,
    RetryLater,
    SuspendQueue,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks, repeat

log = logging.getLogger("pocketmq.client")

YIELD_AFTER = 64
"""The batches after which a listener that never waits lets pulls and heartbeats run."""

LOGGED_MAX = 1024
"""Failing messages that are remembered as logged."""

OVERDUE_CHECKS = 15
"""How often, during one consume timeout, it is looked for batches that exceed it."""

CANCEL_PATIENCE_S = 1.0
"""How long a close waits for a coroutine to end that it has cancelled."""

OVERDUE_DELAY_LEVEL = 3
"""When a batch comes again that took too long (`ProcessQueue#cleanExpiredMsg`)."""

Listener = Callable[[list[ReceivedMessage]], Any]
"""Handles a batch. A coroutine function runs on the loop, a plain function in a thread.

None or `ConsumeResult.SUCCESS` finishes the batch. `ConsumeResult.RETRY` or an exception does not:
it comes again. `RetryLater` says when it does, and which of its messages. Any other answer is a
mistake and counts as an exception.
"""

AsyncListener = Callable[[list[ReceivedMessage]], Awaitable[Any]]

FailureRule = Callable[
    [Sequence[ReceivedMessage], int, BaseException | None], Awaitable[Sequence[ReceivedMessage]]
]
"""(messages not handled, delay level, what the listener raised) → those handed out again here.

The others are somebody else's from then on: their offsets are passed.
"""


async def keep_all(
    messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
) -> Sequence[ReceivedMessage]:
    """Keeps all failed messages: the failure rule without a broker's help."""
    return messages


class LocalRetry:
    """Puts messages that no broker took back into their queues, after a pause.

    Nothing is skipped, and while they wait the queue's offset stays where it is.

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
        """Puts the unhandled messages of a batch back after the pause."""
        self._clock.call_later(self._delay_ms / 1000, self._put_back, queue, batch)

    def _put_back(self, queue: ProcessQueue, batch: Sequence[ReceivedMessage]) -> None:
        queue.put_back(batch)
        self._on_put_back(queue)


class ListenerRaised(NamedTuple):
    """The exception that a listener raised instead of returning a result."""

    error: BaseException


class Worker:
    """One of those that take batches to the listener, one after the other.

    Attributes:
        queue: of the batch that the listener has now; None for none.
        batch: that batch.
        since_s: since when, in seconds of the clock.
    """

    __slots__ = ("batch", "queue", "since_s")

    def __init__(self) -> None:
        self.queue: ProcessQueue | None = None
        self.batch: list[ReceivedMessage] = []
        self.since_s = 0.0


class Dispatcher:
    """Takes batches from the queues in turn and gives them to the listener.

    Args:
        listener: handles a batch.
        clock: for pauses.
        concurrency: how many batches are handled at once.
        batch_max: messages in a batch.
        retry_delay_ms: pause before messages come again that the failure rule left here.
        on_finished: called after each batch, with its queue.
        on_failure: the failure rule.
        consume_timeout_ms: after so long a batch at work falls under the failure rule as well; 0
            for never. The listener is not interrupted; its late success counts for nothing more.

    Attributes:
        statistics: how much was handled of late.
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
        on_failure: FailureRule = keep_all,
        consume_timeout_ms: float = 0,
    ) -> None:
        self._clock, self._on_failure = clock, on_failure
        self._monotonic = clock.monotonic
        self.statistics = ConsumeStatistics(clock)
        self._consume_timeout_s = consume_timeout_ms / 1000
        self._concurrency, self._batch_max = concurrency, batch_max
        self._on_finished = on_finished
        self._retry = LocalRetry(clock, retry_delay_ms, self.offer)
        self._ready: deque[ProcessQueue] = deque()
        self._idle: deque[asyncio.Future[None]] = deque()
        self._workers: set[Worker] = set()
        self._quiet = asyncio.Event()
        self._is_stopping = False
        self._is_paused = False
        self._tasks = Tasks()
        self._logged: dict[str, None] = {}
        self._threads: ListenerThreads | None = None
        self._listener: AsyncListener
        if is_coroutine_function(listener):
            self._listener = listener
        else:
            self._listener = self._threads = ListenerThreads(listener, concurrency)

    def surround(self, around: Callable[[AsyncListener], AsyncListener]) -> None:
        """Wraps the listener, for example with hooks, before the start.

        A listener in a thread sees the context variables that the wrapper sets.
        """
        if self._threads is not None:
            self._threads.carries_context = True
        self._listener = around(self._listener)

    def start(self) -> None:
        """Starts the workers."""
        self._hire()
        if self._consume_timeout_s:
            period_s = self._consume_timeout_s / OVERDUE_CHECKS
            self._tasks.spawn(repeat(self._clock, period_s, self._check_overdue), "consume timeout")

    def _hire(self) -> None:
        while len(self._workers) < self._concurrency:
            worker = Worker()
            self._workers.add(worker)
            self._tasks.spawn(self._work(worker), f"listener {len(self._workers)}")

    def resize(self, concurrency: int) -> None:
        """Changes how many batches are handled at once; batches at work go on.

        Args:
            concurrency: at least 1.
        """
        if self._threads is not None and concurrency > self._concurrency:
            self._threads.resize(concurrency)
        self._concurrency = concurrency
        if self._workers and not self._is_stopping:
            self._hire()
            for _ in range(len(self._workers) - concurrency):
                self._wake_one()

    def offer(self, queue: ProcessQueue) -> None:
        """Adds a queue to those that wait for a worker, if it can hand out a batch."""
        if queue.is_ready or not queue.can_hand_out:
            return
        queue.is_ready = True
        self._ready.append(queue)
        self._wake_one()

    def pause(self) -> None:
        """Hands nothing out until `resume`; batches at work go on. Idempotent."""
        self._is_paused = True

    def resume(self) -> None:
        """Hands messages out again. Idempotent."""
        self._is_paused = False
        for _ in range(len(self._ready)):
            self._wake_one()

    def stop(self) -> None:
        """Hands out no further batch for good. Idempotent."""
        self._is_stopping = True
        self._ready.clear()

    async def close(self, timeout_s: float, clock: Clock) -> list[ProcessQueue]:
        """Stops, waits for the batches at work, and ends the workers. Idempotent.

        Args:
            timeout_s: after so long, what is still at work is cancelled and counts as unfinished.
            clock: by which that is measured.

        Returns:
            The queues of batches that nothing can stop: they are at work in threads, or in
            coroutines that ignore their cancellation.
        """
        self.stop()
        if self._at_work:
            timer = clock.call_later(timeout_s, self._quiet.set)
            await self._quiet.wait()
            timer.cancel()
        unstoppable = [] if self._threads is None else self._at_work
        await self._tasks.close(clock, CANCEL_PATIENCE_S)
        if self._threads is not None:
            self._threads.close()
        return list({*unstoppable, *self._at_work})

    @property
    def _at_work(self) -> list[ProcessQueue]:
        """The queues of the batches that the listener has now."""
        return [worker.queue for worker in self._workers if worker.queue is not None]

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():
                idle.set_result(None)
                return

    async def _work(self, worker: Worker) -> None:
        ready = self._ready
        loop = asyncio.get_running_loop()
        handled = 0
        while True:
            while not ready or self._is_paused:
                idle: asyncio.Future[None] = loop.create_future()
                self._idle.append(idle)
                await idle
                if len(self._workers) > self._concurrency:
                    break
            if len(self._workers) > self._concurrency:
                self._workers.discard(worker)
                if ready:
                    self._wake_one()  # what this one was woken for is another's now
                return
            queue = ready.popleft()
            queue.is_ready = False
            if self._is_stopping or not queue.can_hand_out:
                continue
            await self._handle(worker, queue)
            handled += 1
            if handled % YIELD_AFTER == 0:
                resumed: asyncio.Future[None] = loop.create_future()
                loop.call_soon(_wake, resumed)
                await resumed

    async def _handle(self, worker: Worker, queue: ProcessQueue) -> None:
        batch = queue.take(self._batch_max)
        self.offer(queue)
        worker.queue, worker.batch = queue, batch
        worker.since_s = queue.last_taken_s = begun_s = self._monotonic()
        try:
            try:
                result: object = await self._listener(batch)
            except BaseException as e:  # noqa: BLE001 (the border to the application)
                result = self._raised(e)
            spent_s = self._monotonic() - begun_s
            if result is None or result is ConsumeResult.SUCCESS:
                self.statistics.handled(queue.queue.topic, len(batch), spent_s, is_success=True)
                self._handled(queue, batch)
            else:
                result = _understood(result)
                is_success = not comes_again(result)
                self.statistics.handled(
                    queue.queue.topic, len(batch), spent_s, is_success=is_success
                )
                await self._not_handled(queue, batch, result)
            self._on_finished(queue)
            if not queue.is_ready:
                self.offer(queue)
        finally:
            worker.queue = None
            if self._is_stopping and not self._at_work:
                self._quiet.set()

    async def handle_directly(self, message: ReceivedMessage) -> object:
        """Returns the listener's answer to a message of no queue, or `ListenerRaised`."""
        try:
            return _understood(await self._listener([message]))
        except BaseException as e:  # noqa: BLE001 (the border to the application)
            return self._raised(e)

    def _raised(self, error: BaseException) -> ListenerRaised:
        """Makes an answer of what a listener raised; raises what is not the listener's own."""
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise error
        if isinstance(error, asyncio.CancelledError) and self._is_stopping:
            raise error
        # Before the stop, a cancelled listener has cancelled something of its own.
        return ListenerRaised(error)

    def _handled(self, queue: ProcessQueue, batch: Sequence[ReceivedMessage]) -> None:
        if self._logged:
            self._recovered(batch)
        queue.finish(batch)

    async def _not_handled(
        self, queue: ProcessQueue, batch: Sequence[ReceivedMessage], result: object
    ) -> None:
        """Follows any answer that is not plain success."""
        answer = _retry_of(result)
        handled_count = len(batch) if answer is None else max(0, answer.ack_index + 1)
        failed = batch[handled_count:]
        if answer is None or not failed:
            self._handled(queue, batch)
            return
        if queue.dropped:
            return  # another member has it, or will
        error = error_of(result)
        self._log_once(queue, failed, error)
        queue.finish_part(batch[:handled_count])
        left = await self._give_away(queue, failed, answer.delay_level, error)
        if left:
            self._retry.failed(queue, left)
        else:
            queue.finish(())

    async def _give_away(
        self,
        queue: ProcessQueue,
        messages: Sequence[ReceivedMessage],
        delay_level: int,
        error: BaseException | None,
    ) -> Sequence[ReceivedMessage]:
        """Applies the failure rule; returns the messages that it leaves here."""
        failed = [m for m in messages if queue.holds(m)]
        if not failed:
            return ()
        left = await self._on_failure(failed, delay_level, error)
        left_ids = {id(m) for m in left}
        queue.finish_part(m for m in failed if id(m) not in left_ids)
        return left

    async def _check_overdue(self) -> None:
        begun_before_s = self._clock.monotonic() - self._consume_timeout_s
        for worker in list(self._workers):
            queue, batch = worker.queue, worker.batch
            if queue is None or worker.since_s > begun_before_s:
                continue
            first = batch[0]
            if queue.dropped or not any(map(queue.holds, batch)):
                continue
            log.warning(
                "the listener has had message %s (%s, offset %d) for more than %g s: it comes "
                "again, and its queue goes on",
                first.msg_id,
                queue.queue,
                first.queue_offset,
                self._consume_timeout_s,
                extra=log_fields(message=first),
            )
            late = TimeoutError(f"the listener took more than {self._consume_timeout_s:g} s")
            await self._give_away(queue, batch, OVERDUE_DELAY_LEVEL, late)
            self._on_finished(queue)

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
            "the listener did not handle message %s (%s, offset %d, %d in the batch); it comes "
            "again later",
            first.msg_id,
            queue.queue,
            first.queue_offset,
            len(batch),
            exc_info=error,
            extra=log_fields(message=first),
        )

    def _recovered(self, batch: Sequence[ReceivedMessage]) -> None:
        for message in batch:
            self._logged.pop(message.msg_id, None)


def comes_again(result: object) -> bool:
    """Whether a listener's result leaves something of the batch unhandled."""
    return isinstance(result, (ListenerRaised, RetryLater, SuspendQueue)) or result in (
        ConsumeResult.RETRY,
        OrderlyResult.SUSPEND,
        OrderlyResult.ROLLBACK,
    )


def error_of(result: object) -> BaseException | None:
    """Returns what a listener raised; None if it returned something."""
    return result.error if isinstance(result, ListenerRaised) else None


def _retry_of(result: object) -> RetryLater | None:
    """Returns which messages come again after an answer, and when; None for none."""
    if isinstance(result, RetryLater):
        return result
    return RETRY_ALL if comes_again(result) else None


def _understood(answer: object) -> object:
    """Returns a listener's answer; `ListenerRaised` for what is none."""
    if answer is None or isinstance(answer, ListenerAnswer | ListenerRaised):
        return answer
    return ListenerRaised(
        UsageError(
            f"the listener answered {answer!r:.100}, which is no answer: return None or "
            f"ConsumeResult.SUCCESS when the messages were handled, ConsumeResult.RETRY or a "
            f"RetryLater when they were not"
        )
    )


def _wake(resumed: asyncio.Future[None]) -> None:
    if not resumed.done():
        resumed.set_result(None)
