"""Waiting for messages at several brokers or topics at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pocketmq.client.popping.popper import Popper
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks

log = logging.getLogger("pocketmq.client")

WATCH_MS_MAX = 15_000
"""How long a broker holds one question whether there are messages."""

REST_S = 0.1
"""A broker that has said there were messages, and then had none, is asked no sooner again."""

FAILED_REST_S = 1.0
"""A broker that could not be asked is asked no sooner again."""


class Watches:
    """Asks brokers to say when there is something to pop: one question each at a time.

    Pops would not do: those at the other brokers might take messages that nobody waits for.

    Args:
        popper: asks the brokers.
        clock: for pauses.
    """

    def __init__(self, popper: Popper, clock: Clock) -> None:
        self._popper, self._clock = popper, clock
        self._watched: set[MessageQueue] = set()
        self._told: set[MessageQueue] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks = Tasks()

    def is_empty(self, place: MessageQueue) -> bool:
        """Whether a place is watched, and its broker has not said that it has messages."""
        return place in self._watched

    async def wait(
        self, places: Sequence[tuple[MessageQueue, Subscription]], timeout_ms: int
    ) -> None:
        """Waits until one of the places seems to have messages, or the time is over.

        Args:
            places: what was found empty, or is watched already.
            timeout_ms: in milliseconds.
        """
        for place, subscription in places:
            if place not in self._watched:
                self._watched.add(place)
                self._tasks.spawn(self._watch(place, subscription), f"watch {place}")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        timer = self._clock.call_later(timeout_ms / 1000, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiting.discard(waiter)

    async def _watch(self, place: MessageQueue, subscription: Subscription) -> None:
        try:
            if place in self._told:
                await self._clock.sleep(REST_S)
            self._told.discard(place)
            if await self._popper.has_messages(place, subscription, WATCH_MS_MAX):
                self._told.add(place)
        except PocketMQError as e:
            log.info("%s cannot be watched: %s", place, e)
            await self._clock.sleep(FAILED_REST_S)
        finally:
            self._watched.discard(place)
            for waiter in self._waiting:
                _wake(waiter)

    async def close(self) -> None:
        """Watches nothing any more."""
        await self._tasks.close()
        for waiter in self._waiting:
            _wake(waiter)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
