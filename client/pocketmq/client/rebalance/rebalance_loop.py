"""When a group's queues are shared out anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.rebalance.assignment import Share, Sharing
from pocketmq.runtime.tasks import repeat

UNSETTLED_PAUSE_MS = 1_000
"""How soon queues are shared out again when that could not be done properly."""


class Rebalancing:
    """Works out a member's shares: every so often, and at once when something has changed.

    (`client/impl/consumer/RebalanceService`)

    Args:
        topics: the topics to share, as they are at any time.
        assignment: works out the member's share.
        instance: the clock and the heartbeats; it must be running.
        interval_ms: how often it is done without an occasion.
        take: gets the share of each topic, and says whether all is as it should be.
    """

    def __init__(
        self,
        topics: Iterable[str],
        assignment: Sharing,
        instance: ClientInstance,
        interval_ms: float,
        take: Callable[[Mapping[str, Share]], Awaitable[bool]],
    ) -> None:
        self._topics, self._assignment, self._instance = topics, assignment, instance
        self._interval_ms, self._take = interval_ms, take
        self._due = asyncio.Event()
        self._is_settled = False
        self._is_announced = False

    def due(self) -> None:
        """Members came or went: share the queues out anew."""
        self._due.set()

    def topics_changed(self) -> None:
        """The member wants something else: tell the brokers, then share out anew."""
        self._is_announced = False
        self._due.set()

    async def run(self) -> None:
        """Shares out whenever it is due, forever."""
        await repeat(self._instance.clock, 0, self._when_due)

    async def _when_due(self) -> None:
        pause_ms = self._interval_ms
        if not self._is_settled:
            pause_ms = min(pause_ms, UNSETTLED_PAUSE_MS)
        timer = self._instance.clock.call_later(pause_ms / 1000, self._due.set)
        try:
            await self._due.wait()
        finally:
            timer.cancel()
        self._due.clear()
        await self.once()

    async def once(self) -> None:
        """Shares the queues out now."""
        assignment, topics = self._assignment, sorted(self._topics)
        queues = await asyncio.gather(*(assignment.queues_of(topic) for topic in topics))
        if not self._is_announced or not self._is_settled:
            # Brokers must know this member before they are asked who the members are.
            self._is_announced = True
            await self._instance.heartbeats.send()
        self._is_settled = False
        shares = await asyncio.gather(*map(assignment.share_of, topics, queues))
        self._is_settled = await self._take(dict(zip(topics, shares, strict=True)))
