"""A push consumer's membership of its group: its queues, and how the listener gets messages."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pocketmq.client.consumers.inspection import PushInspection
from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.member_queues import MemberQueues
from pocketmq.client.listening.dispatch import Dispatcher, Listener
from pocketmq.client.listening.hooked_listener import hooks_around
from pocketmq.client.listening.orderly import OrderlyDispatcher
from pocketmq.client.listening.send_back import SendBack
from pocketmq.client.log_fields import log_fields
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.queue_locks import BroadcastLocks, BrokerLocks, Locks, NoLocks
from pocketmq.client.settings import PushSettings
from pocketmq.protocol.bodies.clients import BROADCASTING
from pocketmq.protocol.messages.message import ReceivedMessage

log = logging.getLogger("pocketmq.client")


class PushMembership:
    """Pulls a member's queues and hands their messages to its listener, from joining to leaving.

    Args:
        parts: of the member.
        settings: of the member.
        listener: handles the messages.
        concurrency: how many batches are handled at the same time.

    Attributes:
        queues: the member's queues.
    """

    def __init__(
        self, parts: MemberParts, settings: PushSettings, listener: Listener, concurrency: int
    ) -> None:
        group, instance = parts.member.group, parts.instance
        self._parts, self._settings = parts, settings
        self._is_broadcasting = settings.message_model == BROADCASTING
        self._send_back = SendBack(
            group,
            instance,
            settings.max_reconsume_times,
            error_size_max=settings.last_error_size_max,
        )
        self._dispatcher = self._new_dispatcher(listener, concurrency)
        hooks, timeout_ms = parts.hooks, 0 if settings.orderly else settings.consume_timeout_ms
        if hooks.before or hooks.after:
            self._dispatcher.surround(
                hooks_around(hooks, group, instance.namespace.name, instance.clock, timeout_ms)
            )
        self.queues = MemberQueues(parts, self._new_locks(concurrency), self._dispatcher.offer)
        instance.groups.inspections[group] = PushInspection(
            parts.member, settings, self.queues, self._dispatcher, instance.clock
        )

    def _new_dispatcher(self, listener: Listener, concurrency: int) -> Dispatcher:
        settings, clock = self._settings, self._parts.instance.clock
        if settings.orderly:
            return OrderlyDispatcher(
                listener,
                clock,
                concurrency=concurrency,
                batch_max=settings.consume_message_batch_max_size,
                suspend_ms=settings.suspend_current_queue_time_ms,
                times_max=settings.max_reconsume_times,
                auto_commit=settings.auto_commit,
                on_finished=self._finished,
                give_up=self._drop if self._is_broadcasting else self._send_back.give_up,
            )
        return Dispatcher(
            listener,
            clock,
            concurrency=concurrency,
            batch_max=settings.consume_message_batch_max_size,
            retry_delay_ms=settings.retry_delay_ms,
            on_finished=self._finished,
            on_failure=self._drop if self._is_broadcasting else self._failed,
            consume_timeout_ms=0 if self._is_broadcasting else settings.consume_timeout_ms,
        )

    def _new_locks(self, concurrency: int) -> Locks:
        if not self._settings.orderly:
            return NoLocks(self._queue_concurrency(concurrency))
        locks = BroadcastLocks if self._is_broadcasting else BrokerLocks
        return locks(self._parts.member.group, self._parts.instance)

    def _queue_concurrency(self, concurrency: int) -> int:
        # With one handler in all, a failed batch that waits must hold up its queue too.
        return 1 if concurrency == 1 else self._settings.queue_concurrency

    async def start(self) -> None:
        """Takes the member's queues and begins to hand messages out.

        Raises:
            What `MemberQueues.start` raises.
        """
        self._dispatcher.start()
        await self.queues.start()

    async def close(self) -> None:
        """Finishes what is at work, stores the offsets, and gives all queues up."""
        instance, trace = self._parts.instance, self._parts.trace
        in_threads = await self._dispatcher.close(
            self._settings.close_timeout_ms / 1000, instance.clock
        )
        if trace is not None:
            await trace.close()
        await self.queues.close(in_threads)

    async def stop(self) -> None:
        """Pulls nothing more and hands nothing more out. Idempotent."""
        await self.queues.stop()
        self._dispatcher.stop()

    def pause(self) -> None:
        """Pulls and hands out nothing until `resume`. Idempotent."""
        self.queues.pause()
        self._dispatcher.pause()

    def resume(self) -> None:
        """Pulls and hands out messages again. Idempotent."""
        self.queues.resume()
        self._dispatcher.resume()

    def resize(self, concurrency: int) -> None:
        """Changes how many batches are handled at the same time."""
        self._dispatcher.resize(concurrency)
        if not self._settings.orderly:
            self.queues.limit_batches(self._queue_concurrency(concurrency))

    def _finished(self, messages: ProcessQueue) -> None:
        self.queues.finished(messages)

    async def _failed(
        self, messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
    ) -> Sequence[ReceivedMessage]:
        left = await self._send_back.failed(messages, delay_level, error)
        if len(left) < len(messages):
            self.queues.sent_back()
        return left

    async def _drop(
        self, messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
    ) -> Sequence[ReceivedMessage]:
        group = self._parts.member.group
        for message in messages:
            log.warning(
                "group %s: message %s is dropped: with broadcasting nothing comes again",
                group,
                message.msg_id,
                extra=log_fields(group, message=message),
            )
        return ()
