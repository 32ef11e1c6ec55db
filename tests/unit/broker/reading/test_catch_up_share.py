"""How much time reads of groups far behind take while messages are sent."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pocketmq.broker.counters.traffic import Traffic
from pocketmq.broker.reading.catch_up_share import (
    SENT_MIN,
    SHARE,
    WAITING_MAX,
    WINDOW_S,
    CatchUpShare,
)
from pocketmq.broker.work_share import WorkShare
from pocketmq.testing.clock import VirtualClock, pass_turns, settle

READ_S = 0.001
PAID_BACK_S = 3
DEBT_S = (PAID_BACK_S - 1) * SHARE
"""Reads that took so long use the share up for more than a second, and for less than three."""


class Behind:
    """A group that reads whenever it may."""

    def __init__(self, share: CatchUpShare) -> None:
        self._share = share
        self.count = 0

    def read(self) -> None:
        while not self._share.is_used_up:
            self.count += 1
            self._share.took(READ_S, 0)
        self._share.put_off(self.read)


@pytest.fixture
def stored(clock: VirtualClock) -> Traffic:
    return Traffic(clock.monotonic())


@pytest.fixture
def share(clock: VirtualClock, stored: Traffic) -> CatchUpShare:
    return CatchUpShare(clock, stored, WorkShare())


async def send(clock: VirtualClock, stored: Traffic, seconds: float, per_s: int) -> None:
    """Lets time pass in which so many messages are stored."""
    for _ in range(round(seconds * 100)):
        stored.messages += per_s // 100
        await clock.advance(0.01)


async def test_reads_have_their_share_of_the_time_while_many_are_sent(
    clock: VirtualClock, stored: Traffic, share: CatchUpShare
) -> None:
    await send(clock, stored, 2 * WINDOW_S, 5000)
    behind = Behind(share)
    behind.read()
    before = behind.count
    await send(clock, stored, 10, 5000)
    assert (behind.count - before) * READ_S == pytest.approx(10 * SHARE, rel=0.02)


@pytest.mark.parametrize("per_s", [0, 100])
async def test_nothing_is_put_off_while_few_are_sent(
    clock: VirtualClock, stored: Traffic, share: CatchUpShare, per_s: int
) -> None:
    assert per_s * WINDOW_S < SENT_MIN
    for _ in range(50):
        await send(clock, stored, 0.02, per_s)
        for _ in range(20):
            share.took(READ_S, 0)
            assert not share.is_used_up


async def test_what_waits_is_read_when_the_senders_stop(
    clock: VirtualClock, stored: Traffic, share: CatchUpShare
) -> None:
    await send(clock, stored, 2 * WINDOW_S, 5000)
    share.took(DEBT_S, 0)
    done: list[int] = []
    for number in range(3):
        assert share.put_off(lambda number=number: done.append(number))  # type: ignore[misc]
    await send(clock, stored, 1, 5000)
    assert not done
    share.put_off(lambda: 1 / 0)
    share.put_off(lambda: done.append(3))
    caught: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: caught.append(context))
    await clock.advance(PAID_BACK_S)
    await settle()
    assert done == [0, 1, 2, 3]
    assert (len(caught), clock.pending_timers) == (1, 0)


async def test_one_of_those_that_wait_is_done_in_a_turn(
    clock: VirtualClock, stored: Traffic, share: CatchUpShare
) -> None:
    await send(clock, stored, 2 * WINDOW_S, 5000)
    share.took(DEBT_S, 0)
    turn, turns = 0, list[int]()
    for _ in range(50):
        share.put_off(lambda: turns.append(turn))
    until_s = clock.monotonic() + PAID_BACK_S

    async def count() -> None:
        nonlocal turn
        while len(turns) < 50:
            await pass_turns(1)
            turn += 1

    counting = asyncio.ensure_future(count())
    await clock.advance(until_s - clock.monotonic())
    await counting
    assert max(Counter(turns).values()) <= 4, "pass_turns(1) is a few turns of the loop"


async def test_only_so_many_wait(clock: VirtualClock, stored: Traffic, share: CatchUpShare) -> None:
    await send(clock, stored, 2 * WINDOW_S, 5000)
    share.took(DEBT_S, 0)
    assert all(share.put_off(lambda: None) for _ in range(WAITING_MAX))
    assert not share.put_off(lambda: None)
    share.close()
    assert clock.pending_timers == 0
