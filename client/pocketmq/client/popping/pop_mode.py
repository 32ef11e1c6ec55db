"""What a push consumer that pops has in place of queues of its own."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pocketmq.client.hooks import ConsumeHooks
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.offsets.offset_store import OffsetStore
from pocketmq.client.popping.held_messages import HeldMessages
from pocketmq.client.popping.popped_queue import PoppedQueue
from pocketmq.client.popping.popper import Popper
from pocketmq.client.queues.process_queue import ProcessQueue
from pocketmq.client.queues.pulling import Puller
from pocketmq.client.queues.queue_locks import NoLocks
from pocketmq.client.results import PullResult, PullStatus
from pocketmq.client.settings import PushSettings
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.popping import ALL_QUEUES, POPPED_MAX


def with_pop_limits(settings: PushSettings) -> PushSettings:
    """Returns settings whose limits of pulls are those of pops."""
    return msgspec.structs.replace(
        settings,
        pull_batch_size=min(settings.pull_batch_size, POPPED_MAX),
        pull_threshold_for_queue=settings.pop_threshold_for_queue,
    )


class PopPuller(Puller):
    """Pops where all queues are asked for, and pulls the others.

    The others are those of the group's retry topic: what members that pull have sent back.

    Args:
        group, instance, timeout_ms, hooks: see `Puller`.
        popper: asks the brokers.
        invisible_ms: for how long others do not get a message.
    """

    def __init__(
        self,
        group: str,
        instance: ClientInstance,
        timeout_ms: float,
        hooks: ConsumeHooks,
        popper: Popper,
        invisible_ms: int,
    ) -> None:
        super().__init__(group, instance, timeout_ms, hooks)
        self._popper, self._invisible_ms = popper, invisible_ms

    async def pull(
        self,
        queue: MessageQueue,
        offset: int,
        subscription: Subscription,
        *,
        max_messages: int = POPPED_MAX,
        max_bytes: int | None = None,
        hold_ms: int = 0,
        commit_offset: int | None = None,
    ) -> PullResult:
        """Asks a broker for messages of all its queues, or of one of the retry topic.

        Raises:
            What `Puller.pull` and `Popper.pop` raise.
        """
        if queue.queue_id != ALL_QUEUES:
            return await super().pull(
                queue, offset, subscription, max_messages=max_messages, max_bytes=max_bytes,
                hold_ms=hold_ms, commit_offset=commit_offset,
            )  # fmt: skip
        messages = await self._popper.pop(
            queue,
            subscription,
            max_messages=max_messages,
            invisible_ms=self._invisible_ms,
            poll_ms=hold_ms,
        )
        status = PullStatus.FOUND if messages else PullStatus.NO_NEW_MESSAGE
        return PullResult(status, messages, 0, 0, 0)


class PopOffsets:
    """The offsets of a member that pops: those of all queues are the brokers' own affair.

    Args:
        pulled: of the queues that are pulled.
    """

    def __init__(self, pulled: OffsetStore) -> None:
        self._pulled = pulled

    async def load(self, queue: MessageQueue) -> int:
        """Returns where to begin in a queue."""
        return 0 if queue.queue_id == ALL_QUEUES else await self._pulled.load(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """Returns the group's committed offset in a queue; None if there is none."""
        return None if queue.queue_id == ALL_QUEUES else await self._pulled.committed(queue)

    async def store(self, current: Iterable[tuple[MessageQueue, int]]) -> None:
        """Stores offsets that changed."""
        await self._pulled.store(current)

    def forget(self, queue: MessageQueue) -> None:
        """Forgets a queue that was given up."""
        self._pulled.forget(queue)

    def moved(self, queue: MessageQueue) -> None:
        """Notes that a queue goes on at another offset."""
        self._pulled.moved(queue)


class PopLocks(NoLocks):
    """Locks nothing, and makes queues of popped messages.

    Args:
        concurrency: of one queue.
        held: keeps the messages from others.
    """

    def __init__(self, concurrency: int, held: HeldMessages) -> None:
        super().__init__(concurrency)
        self._held = held

    def process_queue(self, queue: MessageQueue, offset: int) -> ProcessQueue:
        """Makes a queue of popped messages, or an ordinary one of the retry topic."""
        if queue.queue_id == ALL_QUEUES:
            return PoppedQueue(queue, self._held, self.concurrency)
        return super().process_queue(queue, offset)
