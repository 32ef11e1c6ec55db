"""Order over the end of members and brokers, in virtual time on a real broker."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio
from support.brokers.member_parts import Stage

from pocketmq.testing.clock import VirtualClock


@pytest_asyncio.fixture
async def stage(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[Stage]:
    async with Stage(tmp_path, clock) as stage:
        yield stage


async def test_a_crashed_members_queue_is_anothers_after_a_minute(stage: Stage) -> None:
    """The broker cannot know whether it still works."""
    await stage.send(3)
    first = await stage.join("a", is_held=True)
    await stage.until(lambda: stage.begun == [("a", 0)])
    second = await stage.join("b")
    await stage.crash(first)
    took_s = await stage.until(lambda: second.queues, 0.25)
    assert 55 < took_s <= 62
    await stage.until(lambda: len(stage.begun) == 4)
    assert stage.begun[1:] == [("b", 0), ("b", 1), ("b", 2)]


async def test_a_member_that_leaves_hands_over_at_once(stage: Stage) -> None:
    await stage.send(3)
    first = await stage.join("a")
    await stage.until(lambda: len(stage.begun) == 3)
    second = await stage.join("b")
    await stage.done(first.close())
    assert await stage.until(lambda: second.queues) < 1
    await stage.send(1)
    await stage.until(lambda: len(stage.begun) == 4)
    assert stage.begun[3] == ("b", 3)


async def test_a_member_that_is_asked_to_share_ends_its_batch_first(stage: Stage) -> None:
    """The newcomer is the first by name, so that the one queue is its."""
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    second = await stage.join("a")
    await stage.until(lambda: not first.queues)
    await stage.clock.advance(20)
    assert stage.begun == [("b", 0)]
    stage.gates["b"].set()
    assert await stage.until(lambda: len(stage.begun) == 2) < 1
    assert stage.begun[1] == ("a", 1)
    assert second.queues


async def test_a_batch_that_hangs_holds_its_queue_for_a_minute_only(stage: Stage) -> None:
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    await stage.join("a")
    await stage.until(lambda: not first.queues)
    assert 30 < await stage.until(lambda: len(stage.begun) == 3, 0.25) < 62
    assert stage.begun[1:] == [("a", 0), ("a", 1)]


async def test_a_restarted_broker_lets_nobody_overtake(stage: Stage) -> None:
    """Who comes back first is told that he is alone; the queue is the other's all the same."""
    await stage.send(2)
    first = await stage.join("b", is_held=True)
    await stage.until(lambda: stage.begun == [("b", 0)])
    await stage.restart()
    second = await stage.join("c")
    await stage.clock.advance(25)
    assert stage.begun == [("b", 0)]
    assert (len(first.queues), second.queues) == (1, [])
    stage.gates["b"].set()
    await stage.until(lambda: len(stage.begun) == 2)
    assert stage.begun[1] == ("b", 1)


async def test_a_newcomers_first_message_comes_within_a_second(stage: Stage) -> None:
    """Not at the next tick of the 20 s, whether it is alone or not, in order or not."""
    for number, orderly in enumerate((False, True)):
        await stage.join(f"y{number}", orderly=orderly)
        await stage.send(1)
        before = len(stage.begun)
        assert await stage.until(lambda n=before: len(stage.begun) >= n) < 1  # type: ignore[misc]
        newcomer = await stage.join(f"a{number}", orderly=orderly)
        waiting_s = await stage.until(lambda c=newcomer: c.queues)  # type: ignore[misc]
        await stage.send(1)
        name = f"a{number}"
        waiting_s += await stage.until(
            lambda n=name: any(member == n for member, _ in stage.begun)  # type: ignore[misc]
        )
        assert waiting_s < 1
        for consumer, _ in stage._members[-2:]:
            await stage.done(consumer.close())
