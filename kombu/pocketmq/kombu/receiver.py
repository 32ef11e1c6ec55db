"""Fetches messages of the queues that a channel consumes, as many as it wants."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pocketmq.kombu.linked_queue import Delivery, LinkedQueue
from pocketmq.protocol.errors import PocketMQError
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.kombu")

WAIT_MS = 15_000
"""How long the receiver waits for messages before it looks at the routes again."""

FAILED_PAUSE_S = 0.5
"""A queue that could not be asked rests so long."""


class Receiver:
    """Pops from the consumed queues in turn, while the channel has room; on the client's loop.

    Args:
        clock: of the client.
        room: how many messages the channel takes now.
        take: gets what was popped.
        withdraw: gives back what the channel has taken of a queue and nobody has seen.
    """

    def __init__(
        self,
        clock: Clock,
        room: Callable[[], int],
        take: Callable[[list[Delivery]], None],
        withdraw: Callable[[str], list[Delivery]],
    ) -> None:
        self._clock, self._room, self._take, self._withdraw = clock, room, take, withdraw
        self._queues: dict[str, LinkedQueue] = {}
        self._woken = asyncio.Event()
        self._tasks = Tasks()
        self._turn = 0
        self._is_running = False

    async def add(self, queue: LinkedQueue) -> None:
        """Begins to receive from a queue."""
        await queue.join()
        self._queues[queue.name] = queue
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run(), "receive for kombu")
        self.wake()

    async def remove(self, name: str) -> None:
        """Ends receiving from a queue; others get what was received and nobody has seen."""
        queue = self._queues.pop(name, None)
        if queue is not None:
            unseen = self._withdraw(name)
            await queue.give_back([delivery.message for delivery in unseen])
            await queue.leave()
        self.wake()

    def wake(self) -> None:
        """Has the receiver look again, because there is more room."""
        self._woken.set()

    async def close(self) -> None:
        """Ends receiving from all queues."""
        await self._tasks.close()
        for name in list(self._queues):
            await self.remove(name)

    async def _run(self) -> None:
        try:
            while self._queues:
                self._woken.clear()
                if self._room() <= 0:
                    await self._woken.wait()
                elif not await self._receive():
                    await self._wait()
        finally:
            self._is_running = False

    async def _receive(self) -> int:
        """Gives each queue its turn; returns how many messages came."""
        self._turn += 1
        names = list(self._queues)
        start = self._turn % len(names)
        count = 0
        for name in names[start:] + names[:start]:
            room, queue = self._room(), self._queues.get(name)
            if room <= 0 or queue is None:
                continue
            try:
                found = await queue.pop(room)
            except PocketMQError as e:
                log.warning("nothing is received from queue %s now: %s", name, e)
                await self._clock.sleep(FAILED_PAUSE_S)
                continue
            if self._queues.get(name) is not queue:  # cancelled meanwhile
                await queue.give_back(found)
                continue
            self._take([Delivery(queue, message) for message in found])
            count += len(found)
        return count

    async def _wait(self) -> None:
        waits = [asyncio.ensure_future(queue.wait(WAIT_MS)) for queue in self._queues.values()]
        waits.append(asyncio.ensure_future(self._rested()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _rested(self) -> None:
        await self._woken.wait()
