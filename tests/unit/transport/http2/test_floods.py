from __future__ import annotations

import pytest

from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.http2.floods import Flood
from pocketmq.transport.http2.frames import ConnectionFault, ErrorCode


async def test_too_many_in_the_time_are_a_fault(clock: VirtualClock) -> None:
    flood = Flood("PING frames", 3, 10.0, clock.monotonic)
    for _ in range(3):
        flood.count()
    with pytest.raises(ConnectionFault, match="more than 3 PING frames within 10 s") as caught:
        flood.count()
    assert caught.value.code is ErrorCode.ENHANCE_YOUR_CALM


async def test_later_ones_count_anew(clock: VirtualClock) -> None:
    flood = Flood("PING frames", 3, 10.0, clock.monotonic)
    for _ in range(10):
        flood.count()
        await clock.advance(4.0)


async def test_what_was_useful_forgives(clock: VirtualClock) -> None:
    flood = Flood("frames", 3, 10.0, clock.monotonic)
    for _ in range(10):
        flood.count()
        flood.forgive()
