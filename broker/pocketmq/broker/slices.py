"""Going over many things without keeping the others from their turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from pocketmq.protocol.bodies import Body
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

QUEUES_PER_SLICE = 100
"""Queues that are looked into between two turns of the loop: about 10 ms if the disk is asked."""

PIECES_PER_SLICE = 400
"""Two for each entry of a body's maps, encoded between two turns of the loop: 2 ms of topics."""


async def in_slices(clock: Clock, items: Iterable[T], count: int) -> AsyncIterator[T]:
    """The items, with a turn of the loop for others after each so many of them.

    What the items are about may have changed after each turn.
    """
    for number, item in enumerate(items):
        if number and number % count == 0:
            await clock.sleep(0)
        yield item


async def encoded_in_slices(clock: Clock, body: Body) -> bytes:
    """A body that may have an entry for every topic, queue or group of the broker.

    Its maps must not be changed meanwhile.
    """
    return b"".join([piece async for piece in in_slices(clock, body.pieces(), PIECES_PER_SLICE)])
