from __future__ import annotations

import asyncio

from pocketmq.broker.slices import PIECES_PER_SLICE, encoded_in_slices, in_slices
from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigTable
from pocketmq.testing.clock import VirtualClock, settle


async def test_others_have_their_turns_in_between(clock: VirtualClock) -> None:
    seen: list[int] = []

    async def go() -> None:
        async for item in in_slices(clock, range(7), 3):
            seen.append(item)

    going = asyncio.ensure_future(go())
    counts = set[int]()
    while not going.done():
        counts.add(len(seen))
        await settle(1)
    assert seen == list(range(7))
    assert counts == {0, 3, 6}


async def test_a_few_are_gone_over_at_once(clock: VirtualClock) -> None:
    items = in_slices(clock, "abc", 3)
    assert [item async for item in items] == ["a", "b", "c"]


async def test_a_large_body_is_encoded_while_others_have_their_turns(clock: VirtualClock) -> None:
    configs = [TopicConfig(topic_name=f"Topic-{n}") for n in range(PIECES_PER_SLICE)]
    body = TopicConfigTable(topic_config_table={c.topic_name: c for c in configs})
    encoding = asyncio.ensure_future(encoded_in_slices(clock, body))
    turns = 0
    while not encoding.done():
        await settle(1)
        turns += 1
    assert turns > 2
    assert encoding.result() == body.encode()
