"""Handling batches in order within each queue (`ConsumeMessageOrderlyService`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.client.listening.dispatch import (
    Dispatcher,
    FailureRule,
    Listener,
    comes_again,
    error_of,
)
from pocketmq.client.queues.orderly_queue import OrderlyQueue
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.results import OrderlyResult, RetryLater, SuspendQueue
from pocketmq.client.settings import SUSPEND_MS_MAX, SUSPEND_MS_MIN
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock


class OrderlyDispatcher(Dispatcher):
    """Hands out one batch of a queue at a time, and repeats a failed one before any other.

    Args:
        listener: handles a batch.
        clock: for pauses.
        concurrency: how many batches, of different queues, are handled at once.
        batch_max: messages in a batch.
        suspend_ms: how long a queue rests after a batch that failed.
        times_max: how often a message is repeated before it is given up; -1 for ever.
        auto_commit: what was handled is finished; otherwise only when the listener says so.
        on_finished: called after each batch, with its queue.
        give_up: takes messages that are not to be repeated; what it leaves is.
    """

    def __init__(
        self,
        listener: Listener,
        clock: Clock,
        *,
        concurrency: int,
        batch_max: int,
        suspend_ms: float,
        times_max: int,
        auto_commit: bool,
        on_finished: Callable[[ProcessQueue], object],
        give_up: FailureRule,
    ) -> None:
        super().__init__(
            listener,
            clock,
            concurrency=concurrency,
            batch_max=batch_max,
            retry_delay_ms=suspend_ms,
            on_finished=on_finished,
        )
        self._suspend_ms, self._times_max, self._auto_commit = suspend_ms, times_max, auto_commit
        self._give_up = give_up

    def _handled(self, queue: ProcessQueue, batch: Sequence[ReceivedMessage]) -> None:
        assert isinstance(queue, OrderlyQueue)
        if self._logged:
            self._recovered(batch)
        queue.keep(batch)
        if self._auto_commit:
            queue.commit()
        queue.finish(())

    async def _not_handled(
        self, queue: ProcessQueue, batch: Sequence[ReceivedMessage], result: object
    ) -> None:
        assert isinstance(queue, OrderlyQueue)
        if result is OrderlyResult.COMMIT:
            self._handled(queue, batch)
            queue.commit()
        elif result is OrderlyResult.ROLLBACK or (
            isinstance(result, SuspendQueue) and result.is_rollback
        ):
            queue.put_back([*queue.rollback(), *batch])
            self._suspend(queue, self._pause_ms(result))
        elif comes_again(result):
            await self._repeat(queue, batch, result)
        else:
            self._handled(queue, batch)

    async def _repeat(
        self, queue: OrderlyQueue, batch: Sequence[ReceivedMessage], result: object
    ) -> None:
        """Repeats a failed batch, without the messages that failed often enough."""
        level = 0
        if isinstance(result, RetryLater):
            level, handled_count = result.delay_level, max(0, result.ack_index + 1)
            queue.keep(batch[:handled_count])
            batch = batch[handled_count:]
            if self._auto_commit:
                queue.commit()
        if batch and not queue.dropped:
            error = error_of(result)
            self._log_once(queue, batch, error)
            batch = await self._without_exhausted(queue, batch, level, error)
        if not batch:
            queue.finish(())
            return
        for message in batch:
            message.reconsume_times += 1
        queue.put_back(batch)
        self._suspend(queue, self._pause_ms(result))

    async def _without_exhausted(
        self,
        queue: OrderlyQueue,
        batch: Sequence[ReceivedMessage],
        level: int,
        error: BaseException | None,
    ) -> Sequence[ReceivedMessage]:
        """Returns what of a batch comes again; gives the rest up (`checkReconsumeTimes`)."""
        times_max = self._times_max
        exhausted = [
            m for m in batch if level < 0 or 0 <= times_max <= m.reconsume_times
        ]  # fmt: skip
        if not exhausted:
            return batch
        left = {id(m) for m in await self._give_up(exhausted, level, error)}
        gone = {id(m) for m in exhausted} - left
        queue.finish_part([m for m in batch if id(m) in gone])
        return [m for m in batch if id(m) not in gone]

    def _pause_ms(self, result: object) -> float:
        if isinstance(result, SuspendQueue) and result.suspend_ms >= 0:
            return result.suspend_ms
        return self._suspend_ms

    def _suspend(self, queue: OrderlyQueue, pause_ms: float) -> None:
        queue.is_suspended = True
        bounded_ms = min(max(pause_ms, SUSPEND_MS_MIN), SUSPEND_MS_MAX)
        self._clock.call_later(bounded_ms / 1000, self._go_on, queue)

    def _go_on(self, queue: OrderlyQueue) -> None:
        queue.is_suspended = False
        self.offer(queue)
