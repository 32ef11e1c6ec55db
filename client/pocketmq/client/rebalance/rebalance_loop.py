"""The loop that decides when a group's queues are allocated anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping

from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.rebalance.allocators import Allocation, Allocator
from pocketmq.runtime.tasks import repeat

UNSETTLED_PAUSE_MS = 1_000
"""The pause before another attempt, after queues could not be allocated completely."""


class RebalanceLoop:
    """Allocates queues to a member periodically, and at once on `request`.

    (`client/impl/consumer/RebalanceService`)

    Args:
        topics: whose queues are allocated; read anew each time.
        allocator: allocates the queues.
        instance: the clock and the heartbeats; it must be running.
        interval_ms: how often queues are allocated without a request.
        take: puts the allocation of each topic into effect; returns whether that was complete.
    """

    def __init__(
        self,
        topics: Iterable[str],
        allocator: Allocator,
        instance: ClientInstance,
        interval_ms: float,
        take: Callable[[Mapping[str, Allocation]], Awaitable[bool]],
    ) -> None:
        self._topics, self._allocator, self._instance = topics, allocator, instance
        self._interval_ms, self._take = interval_ms, take
        self._requested = asyncio.Event()
        self._is_settled = False
        self._is_announced = False

    def request(self) -> None:
        """Allocates the queues anew soon, for example because members came or went."""
        self._requested.set()

    def topics_changed(self) -> None:
        """Sends the changed subscriptions in a heartbeat, then allocates the queues anew."""
        self._is_announced = False
        self._requested.set()

    async def run(self) -> None:
        """Allocates the queues whenever the interval is over or a request came, forever."""
        await repeat(self._instance.clock, 0, self._wait_and_rebalance)

    async def _wait_and_rebalance(self) -> None:
        pause_ms = self._interval_ms
        if not self._is_settled:
            pause_ms = min(pause_ms, UNSETTLED_PAUSE_MS)
        timer = self._instance.clock.call_later(pause_ms / 1000, self._requested.set)
        try:
            await self._requested.wait()
        finally:
            timer.cancel()
        self._requested.clear()
        await self.rebalance()

    async def rebalance(self) -> None:
        """Allocates the queues of all topics now."""
        allocator, topics = self._allocator, sorted(self._topics)
        queues = await asyncio.gather(*(allocator.queues_of(topic) for topic in topics))
        if not self._is_announced or not self._is_settled:
            # Brokers must know this member before they are asked who the members are.
            self._is_announced = True
            await self._instance.heartbeats.send()
        self._is_settled = False
        allocations = await asyncio.gather(*map(allocator.allocate, topics, queues))
        self._is_settled = await self._take(dict(zip(topics, allocations, strict=True)))
