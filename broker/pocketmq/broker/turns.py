"""Going over many things without keeping the others from their turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from pocketmq.transport.clock import Clock

T = TypeVar("T")

QUEUES_PER_TURN = 100
"""Queues that are looked into between two turns of the loop: about 10 ms if the disk is asked."""


async def by_turns(clock: Clock, items: Iterable[T], count: int) -> AsyncIterator[T]:
    """The items, with a turn of the loop for others after each so many of them.

    What the items are about may have changed after each turn.
    """
    for number, item in enumerate(items):
        if number and number % count == 0:
            await clock.sleep(0)
        yield item
