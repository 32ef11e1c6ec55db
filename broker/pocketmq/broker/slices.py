"""Long loops cut into slices, between which other tasks run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from pocketmq.protocol.bodies import Body
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

QUEUES_PER_SLICE = 100
"""Queues that one slice looks at: about 10 ms if each look reads the disk."""

PIECES_PER_SLICE = 400
"""Pieces that one slice encodes, two for each entry of a map: about 2 ms of topics."""


async def in_slices(clock: Clock, items: Iterable[T], count: int) -> AsyncIterator[T]:
    """Yields the items, and lets other tasks run after every `count` of them.

    The other tasks may change what the items stand for.
    """
    for number, item in enumerate(items):
        if number and number % count == 0:
            await clock.sleep(0)
        yield item


async def encoded_in_slices(clock: Clock, body: Body) -> bytes:
    """Encodes a body that may have an entry for every topic, queue or group of the broker.

    The body's maps must not be changed until the result is there.
    """
    return b"".join([piece async for piece in in_slices(clock, body.pieces(), PIECES_PER_SLICE)])
