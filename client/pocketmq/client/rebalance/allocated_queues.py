"""The queues that are allocated to a member that pulls them itself."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.rebalance.allocators import Allocation, Allocator
from pocketmq.client.rebalance.queue_listeners import MessageQueueListener, MessageQueueListeners
from pocketmq.client.rebalance.rebalance_loop import RebalanceLoop
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.tasks import Tasks


class AllocatedQueues:
    """Keeps the queues that are allocated to a member of a pull consumer's group.

    Nothing is allocated, and no broker is asked, before `join` names a topic.

    Args:
        allocator: allocates the queues.
        instance: the clock and the heartbeats; it must be running.
        interval_ms: how often queues are allocated without an occasion.
    """

    def __init__(self, allocator: Allocator, instance: ClientInstance, interval_ms: float) -> None:
        self.topics: set[str] = set()
        """The topics whose queues are allocated."""
        self._own: dict[str, list[MessageQueue]] = {}
        self._listeners = MessageQueueListeners()
        self._rebalancing = RebalanceLoop(self.topics, allocator, instance, interval_ms, self._take)
        self._tasks = Tasks()

    async def join(self, topic: str) -> None:
        """Allocates a topic's queues from now on; returns after the first allocation.

        Raises:
            What the strategy raises.
        """
        self.topics.add(topic)
        if not len(self._tasks):
            self._tasks.spawn(self._rebalancing.run(), "allocate queues")
        self._rebalancing.topics_changed()
        await self._rebalancing.rebalance()

    def listen(self, topic: str, listener: MessageQueueListener | None) -> None:
        """Sets the listener to a topic's allocated queues; None removes it."""
        self._listeners.set(topic, listener)

    def group_changed(self) -> None:
        """Allocates the queues anew, because members came or went."""
        self._rebalancing.request()

    def own(self, topic: str) -> list[MessageQueue]:
        """Returns this member's queues of a topic, sorted."""
        return list(self._own.get(topic, ()))

    async def close(self) -> None:
        """Stops allocating queues. Idempotent."""
        await self._tasks.close()

    async def _take(self, allocations: Mapping[str, Allocation]) -> bool:
        for topic, allocation in allocations.items():
            if allocation.queues is not None:
                self._own[topic] = sorted(allocation.queues)
        await self._listeners.allocated(allocations)
        return all(allocation.is_settled for allocation in allocations.values())
