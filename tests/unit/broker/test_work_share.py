"""How much costly reading a turn of the loop does."""

from __future__ import annotations

import asyncio

import pytest

from pocketmq.broker.work_share import WorkShare
from pocketmq.runtime.clock import SystemClock

machine_clock = SystemClock()


async def test_the_share_is_whole_again_in_the_next_turn() -> None:
    share = WorkShare(100)
    share.took(120)
    assert share.left == -20
    await machine_clock.sleep(0)
    assert share.left == 100


async def test_steps_that_are_put_off_get_a_turn_each_in_their_order() -> None:
    share, done = WorkShare(100), list[str]()
    for name in ("first", "second"):
        share.put_off(lambda name=name: done.append(f"{name} of {share.left}"))  # type: ignore[misc]
    assert done == []
    await machine_clock.sleep(0)
    assert done == ["first of 100"]
    assert share.left <= 0, "what comes meanwhile queues behind those that wait"
    await machine_clock.sleep(0)
    assert done == ["first of 100", "second of 100"]
    await machine_clock.sleep(0)
    assert share.left == 100


async def test_who_waits_for_a_turn_and_goes_holds_up_nobody() -> None:
    share = WorkShare(100)
    gone, waiting = asyncio.ensure_future(share.turn()), asyncio.ensure_future(share.turn())
    await machine_clock.sleep(0)
    gone.cancel()
    await waiting
    assert gone.cancelled()


async def test_who_waited_for_a_turn_shares_it_with_no_step() -> None:
    share, done = WorkShare(100), list[str]()

    async def work() -> None:
        await share.turn()
        done.append("waited")

    working = asyncio.ensure_future(work())
    await machine_clock.sleep(0)
    share.put_off(lambda: done.append("step"))
    seen = list[list[str]]()
    while len(done) < 2:
        await machine_clock.sleep(0)
        seen.append(list(done))
    await working
    assert ["waited"] in seen, "both in one turn"


async def test_a_step_that_fails_does_not_stop_the_others() -> None:
    share, told = WorkShare(100), list[object]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: told.append(context["exception"])
    )
    failure = OSError("gone")

    def fail() -> None:
        raise failure

    share.put_off(fail)
    await share.turn()
    assert told == [failure]


@pytest.mark.parametrize("left", [99, 51])
async def test_a_small_part_of_the_share_is_not_counted_by_turns(left: int) -> None:
    share = WorkShare(100)
    share.took(100 - left)
    await machine_clock.sleep(0)
    assert share.left == left
