"""Large registrations: read in slices, and one request of a broker after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from pocketmq.namesrv.broker_registration import BrokerKey
from pocketmq.protocol.bodies.registrations import (
    RegisteredTopics,
    read_registration,
    registration_steps,
)
from pocketmq.protocol.errors import ContentError
from pocketmq.runtime.clock import Clock, Timer
from pocketmq.runtime.process import give_back_freed_memory
from pocketmq.runtime.slices import next_slice
from pocketmq.transport.frame_budget import FrameBudget

T = TypeVar("T")

GIVEN_BACK_AFTER_SIZE = 64 * 1024 * 1024
"""Bytes of large registrations after which memory is given back to the system."""

GIVEN_BACK_AFTER_S = 5.0
"""Seconds from then on, in which the other brokers register, too, if all do."""

AT_ONCE_SIZE_MAX = 64 * 1024
"""Bytes of a registration that are read at once: some 400 topics, half a millisecond."""


class BrokerTurns:
    """Lets requests of a broker wait for an earlier one that takes several turns of the loop.

    Args:
        clock: says when memory is given back.
        budget: bounds the bytes of those that wait, with those that have not come as a whole.

    Attributes:
        reading: held by whoever reads a large registration: read takes three times its bytes.
    """

    def __init__(self, clock: Clock, budget: FrameBudget) -> None:
        self._last: dict[BrokerKey, asyncio.Task[Any]] = {}
        self._clock, self._budget = clock, budget
        self._read_size = 0
        self._timer: Timer | None = None
        self.reading = asyncio.Lock()

    def must_wait(self, key: BrokerKey, size: int = 0) -> bool:
        """Whether a request has to go through `after_earlier`.

        Args:
            key: the broker.
            size: bytes of topics that it brings.
        """
        return size > AT_ONCE_SIZE_MAX or key in self._last

    def after_earlier(
        self, key: BrokerKey, action: Coroutine[Any, Any, T], size: int = 0
    ) -> asyncio.Task[T]:
        """Starts an action when the earlier ones of a broker have ended.

        Args:
            key: the broker.
            action: is not cancelled when whoever waits for it goes away before it starts.
            size: bytes that it holds.
        """
        task = asyncio.get_running_loop().create_task(_after(self._last.get(key), action))
        self._last[key] = task
        self._budget.occupy(size)

        def ended(task: asyncio.Task[T]) -> None:
            self._budget.vacate(size)
            action.close()  # if it was cancelled while it waited
            if self._last.get(key) is task:
                del self._last[key]
            self._read_size += size
            if self._read_size >= GIVEN_BACK_AFTER_SIZE and self._timer is None:
                self._timer = self._clock.call_later(GIVEN_BACK_AFTER_S, self._give_back)
            if not task.cancelled():
                task.exception()  # whoever waits has it; the loop need not warn of it

        task.add_done_callback(ended)
        return task

    def _give_back(self) -> None:
        if self._last:
            self._timer = self._clock.call_later(GIVEN_BACK_AFTER_S, self._give_back)
            return
        self._timer, self._read_size = None, 0
        asyncio.get_running_loop().run_in_executor(None, give_back_freed_memory)


async def _after(earlier: asyncio.Task[Any] | None, action: Coroutine[Any, Any, T]) -> T:
    if earlier is not None:
        await asyncio.wait([earlier])
    return await action


async def read_in_slices(
    clock: Clock, body: bytes, *, compressed: bool, version: int
) -> RegisteredTopics:
    """Reads a large registration as `read_registration` does, while others have their turns.

    JSON in RocketMQ's dialect takes a thread: reading it cannot be cut, and takes a hundred times
    as long.

    Raises:
        ContentError: it cannot be read.
    """
    steps = registration_steps(body, compressed=compressed, version=version)
    while True:
        await next_slice(clock)
        try:
            next(steps)
        except StopIteration as end:
            topics: RegisteredTopics = end.value
            return topics
        except ContentError:
            if compressed:
                raise
            return await asyncio.to_thread(
                read_registration, body, compressed=compressed, version=version
            )
