from __future__ import annotations

import asyncio

from pocketmq.broker.turns import by_turns
from pocketmq.testing.clock import VirtualClock, settle


async def test_others_have_their_turns_in_between(clock: VirtualClock) -> None:
    seen: list[int] = []

    async def go() -> None:
        async for item in by_turns(clock, range(7), 3):
            seen.append(item)

    going = asyncio.ensure_future(go())
    counts = set[int]()
    while not going.done():
        counts.add(len(seen))
        await settle(1)
    assert seen == list(range(7))
    assert counts == {0, 3, 6}


async def test_a_few_are_gone_over_at_once(clock: VirtualClock) -> None:
    items = by_turns(clock, "abc", 3)
    assert [item async for item in items] == ["a", "b", "c"]
