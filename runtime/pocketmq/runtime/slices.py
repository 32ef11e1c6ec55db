"""Long loops cut into slices, between which other tasks run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar
from weakref import WeakKeyDictionary

from pocketmq.protocol.bodies import Body
from pocketmq.runtime.clock import Clock

T = TypeVar("T")

QUEUES_PER_SLICE = 100
"""Queues that one slice looks at: about 10 ms if each look reads the disk."""

PIECES_PER_SLICE = 400
"""Pieces that one slice encodes, two for each entry of a map: about 2 ms of topics."""


_waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = (
    WeakKeyDictionary()
)


async def next_slice(clock: Clock) -> None:
    """Waits for a turn of the loop in which no other slice runs.

    Slices are given turns in the order in which they ask: however many long loops are under way,
    a turn does no more for all of them than for one.
    """
    clock.monotonic()  # a clock that jumps while nobody is busy takes this for work
    await _turn()


def call_in_slice(action: Callable[[], object]) -> None:
    """Calls a function in a turn of the loop in which no other slice runs."""
    _turn().add_done_callback(lambda _: action())


def _turn() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    waiting = _waiting.setdefault(loop, deque())
    turn: asyncio.Future[None] = loop.create_future()
    waiting.append(turn)
    if len(waiting) == 1:
        loop.call_soon(_begin_slice, loop, waiting)
    return turn


def _begin_slice(loop: asyncio.AbstractEventLoop, waiting: deque[asyncio.Future[None]]) -> None:
    while waiting[0].cancelled():
        waiting.popleft()
        if not waiting:
            return
    waiting[0].set_result(None)
    waiting.popleft()
    if waiting:
        loop.call_soon(_begin_slice, loop, waiting)


async def in_slices(clock: Clock, items: Iterable[T], count: int) -> AsyncIterator[T]:
    """Yields the items, and lets other tasks run after every `count` of them.

    The other tasks may change what the items stand for.
    """
    for number, item in enumerate(items):
        if number and number % count == 0:
            await next_slice(clock)
        yield item


async def encoded_in_slices(clock: Clock, body: Body) -> bytes:
    """Encodes a body that may have an entry for every topic, queue or group of the broker.

    The body's maps must not be changed until the result is there.
    """
    return b"".join([piece async for piece in in_slices(clock, body.pieces(), PIECES_PER_SLICE)])
