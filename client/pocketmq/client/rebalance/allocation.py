"""The queues that belong to a member of a group that pulls them itself."""

from __future__ import annotations

from collections.abc import Mapping

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.rebalance.assignment import Share, Sharing
from pocketmq.client.rebalance.queue_listeners import ShareListener, ShareListeners
from pocketmq.client.rebalance.rebalance_loop import Rebalancing
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.tasks import Tasks


class GroupShare:
    """Shares topics out among the group's members, and knows what is this member's.

    Nothing is shared, and nobody is asked, before `join` names a topic.

    Args:
        assignment: works out the member's share.
        instance: the clock and the heartbeats; it must be running.
        interval_ms: how often it is done without an occasion.
    """

    def __init__(self, assignment: Sharing, instance: ClientInstance, interval_ms: float) -> None:
        self.topics: set[str] = set()
        """The topics that are shared."""
        self._own: dict[str, list[MessageQueue]] = {}
        self._listeners = ShareListeners()
        self._rebalancing = Rebalancing(self.topics, assignment, instance, interval_ms, self._take)
        self._tasks = Tasks()

    async def join(self, topic: str) -> None:
        """Shares a topic from now on; returns when that was done once.

        Raises:
            What the strategy raises.
        """
        self.topics.add(topic)
        if not len(self._tasks):
            self._tasks.spawn(self._rebalancing.run(), "share queues out")
        self._rebalancing.topics_changed()
        await self._rebalancing.once()

    def listen(self, topic: str, listener: ShareListener | None) -> None:
        """Who is told when this member's queues of a topic change."""
        self._listeners.set(topic, listener)

    def due(self) -> None:
        """Members came or went."""
        self._rebalancing.due()

    def own(self, topic: str) -> list[MessageQueue]:
        """This member's queues of a topic, sorted."""
        return list(self._own.get(topic, ()))

    async def close(self) -> None:
        """Shares nothing any more. Idempotent."""
        await self._tasks.close()

    async def _take(self, shares: Mapping[str, Share]) -> bool:
        for topic, share in shares.items():
            if share.queues is not None:
                self._own[topic] = sorted(share.queues)
        await self._listeners.shared(shares)
        return all(share.is_settled for share in shares.values())
