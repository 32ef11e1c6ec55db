from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise

from pocketmq.protocol.bodies.topics import TopicConfig, TopicConfigList, TopicConfigTable
from pocketmq.protocol.wire.loose_json import RUN_LENGTH
from pocketmq.runtime.slices import PIECES_PER_SLICE, call_in_slice, encoded_in_slices, in_slices
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


async def test_a_turn_has_one_slice_however_many_loops_are_under_way(clock: VirtualClock) -> None:
    done = 0

    async def go() -> None:
        nonlocal done
        async for _ in in_slices(clock, range(4), 1):
            done += 1

    going = [asyncio.ensure_future(go()) for _ in range(5)]
    await settle(1)
    assert done == 5
    going[2].cancel()
    steps = [done]
    while not all(loop.done() for loop in going):
        await settle(1)
        steps.append(done)
    assert done == 5 + 4 * 3
    assert max(after - before for before, after in pairwise(steps)) == 1


async def test_a_long_list_and_a_long_map_are_encoded_piece_by_piece() -> None:
    configs = [TopicConfig(topic_name=f"Topic-{n}") for n in range(RUN_LENGTH * 2 + 1)]
    as_list = TopicConfigList(topic_config_list=configs)
    as_map = TopicConfigTable(topic_config_table={c.topic_name: c for c in configs})
    for body in (as_list, as_map):
        pieces = [*body.pieces()]
        assert b"".join(pieces) == body.encode()
        assert len(pieces) > len(configs)
        assert max(map(len, pieces)) < 1000


async def test_a_function_is_called_in_the_next_free_slice(clock: VirtualClock) -> None:
    called: list[int] = []
    for number in range(3):
        call_in_slice(partial(called.append, number))
    seen = []
    while len(called) < 3:
        seen.append(len(called))
        await settle(1)
    assert called == [0, 1, 2]
    assert seen[0] == 0
    assert max(after - before for before, after in pairwise([*seen, 3])) == 1
