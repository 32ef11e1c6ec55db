"""A push consumer's membership of its group when it pops instead of pulling queues of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pocketmq.client.consumers.member_parts import MemberParts
from pocketmq.client.consumers.push_membership import PushMembership
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.log_fields import log_fields
from pocketmq.client.popping.held_messages import HeldMessages
from pocketmq.client.popping.pop_mode import PopLocks, PopOffsets, PopPuller, with_pop_limits
from pocketmq.client.popping.popper import Popper, init_mode_of
from pocketmq.client.queues.queue_locks import Locks
from pocketmq.client.rebalance.allocators import PopAllocator
from pocketmq.client.settings import PushSettings
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.delay_levels import retry_delay_s
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import retry_topic

log = logging.getLogger("pocketmq.client")

MAX_RECONSUME_TIMES_DEFAULT = 16


class PopMembership(PushMembership):
    """Pops from all brokers of a topic (`ConsumeMessagePopConcurrentlyService`).

    What the listener did not handle becomes visible again after the delay of its attempt; after too
    many it is put among the dead letters, where RocketMQ's client drops it.

    Args:
        parts, settings, listener, concurrency: see `PushMembership`.
    """

    def __init__(
        self, parts: MemberParts, settings: PushSettings, listener: Listener, concurrency: int
    ) -> None:
        group, instance = parts.member.group, parts.instance
        self._group, self._times_max = group, settings.max_reconsume_times
        if self._times_max == -1:
            self._times_max = MAX_RECONSUME_TIMES_DEFAULT
        timeout_ms, invisible_ms = settings.pull_timeout_ms, settings.pop_invisible_ms
        self._popper = Popper(
            group,
            instance,
            timeout_ms,
            parts.hooks,
            init_mode=init_mode_of(settings.consume_from_where),
        )
        self._held = HeldMessages(self._popper, instance.clock, invisible_ms)
        settings = with_pop_limits(settings)
        popping = parts._replace(
            settings=settings,
            offsets=PopOffsets(parts.offsets),
            allocator=PopAllocator(parts.allocator, retry_topic(group)),
            puller=PopPuller(group, instance, timeout_ms, parts.hooks, self._popper, invisible_ms),
        )
        super().__init__(popping, settings, listener, concurrency)

    def _new_locks(self, concurrency: int) -> Locks:
        return PopLocks(self._queue_concurrency(concurrency), self._held)

    async def start(self) -> None:
        """Begins to pop and to hand messages out.

        Raises:
            What `MemberQueues.start` raises.
        """
        self._held.start()
        await super().start()

    async def close(self) -> None:
        """Finishes what is at work, and gives back what is not handled."""
        try:
            await super().close()
        finally:
            await self._held.close()

    async def _failed(
        self, messages: Sequence[ReceivedMessage], delay_level: int, error: BaseException | None
    ) -> Sequence[ReceivedMessage]:
        pulled = [m for m in messages if not self._held.holds(m)]
        popped = [m for m in messages if self._held.holds(m)]
        left = list(await super()._failed(pulled, delay_level, error)) if pulled else []
        are_put_off = await asyncio.gather(*(self._put_off(m, delay_level, error) for m in popped))
        left += [m for m, is_put_off in zip(popped, are_put_off, strict=True) if not is_put_off]
        return left

    async def _put_off(
        self, message: ReceivedMessage, delay_level: int, error: BaseException | None
    ) -> bool:
        """Lets a message come again later, or never; False if no broker takes that."""
        if delay_level < 0 or message.reconsume_times >= self._times_max:
            if await self._send_back.failed([message], -1, error):
                return False
            self._held.handled(message)
            return True
        delay_s = retry_delay_s(message.reconsume_times, delay_level)
        try:
            await self._popper.change_invisible_time(message, delay_s * 1000)
        except PocketMQError as e:
            log.warning(
                "group %s: message %s cannot be put off now, it is kept here: %s",
                self._group,
                message.msg_id,
                e,
                extra=log_fields(self._group, message=message),
            )
            return False
        self._held.let_go(message)
        return True
