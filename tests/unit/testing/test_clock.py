from __future__ import annotations

import asyncio

import pytest

from pocketmq.testing.clock import START_MS, VirtualClock, settle


async def test_time_stands_still_until_it_is_told_to_move(clock: VirtualClock) -> None:
    assert (clock.now_ms(), clock.monotonic()) == (START_MS, 0.0)
    await settle()
    assert (clock.now_ms(), clock.monotonic()) == (START_MS, 0.0)
    await clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (START_MS + 1500, 1.5)
    assert VirtualClock(start_ms=7).now_ms() == 7


async def test_timers_fire_in_order_each_at_its_own_moment(clock: VirtualClock) -> None:
    fired: list[tuple[str, float]] = []

    def note(name: str) -> None:
        fired.append((name, clock.monotonic()))

    clock.call_later(3, note, "c")
    clock.call_later(1, note, "a")
    clock.call_later(1, note, "b")
    clock.call_later(9, note, "late")
    assert clock.pending_timers == 4
    await clock.advance(5)
    assert fired == [("a", 1.0), ("b", 1.0), ("c", 3.0)]
    assert clock.pending_timers == 1


async def test_what_a_timer_arms_fires_in_the_same_advance(clock: VirtualClock) -> None:
    fired: list[float] = []

    def again() -> None:
        fired.append(clock.monotonic())
        clock.call_later(1, again)

    clock.call_later(1, again)
    await clock.advance(3)
    assert fired == [1.0, 2.0, 3.0]


async def test_sleepers_wake_in_order(clock: VirtualClock) -> None:
    woken: list[tuple[int, float]] = []

    async def sleeper(name: int, seconds: float) -> None:
        for _ in range(2):
            await clock.sleep(seconds)
            woken.append((name, clock.monotonic()))

    tasks = [asyncio.ensure_future(sleeper(n, s)) for n, s in enumerate((2, 3))]
    await clock.advance(10)
    await asyncio.gather(*tasks)
    assert woken == [(0, 2.0), (1, 3.0), (0, 4.0), (1, 6.0)]


async def test_hours_pass_in_no_time(clock: VirtualClock) -> None:
    count = 0

    async def work() -> None:
        nonlocal count
        while True:
            await clock.sleep(30)
            count += 1

    task = asyncio.ensure_future(work())
    await clock.advance(3600)
    task.cancel()
    assert count == 120


async def test_cancelled_timers_do_not_fire(clock: VirtualClock) -> None:
    clock.call_later(1, pytest.fail, "it was cancelled").cancel()
    task = asyncio.ensure_future(clock.sleep(1))
    await settle(2)
    task.cancel()
    await clock.advance(2)
    assert task.cancelled()
    assert clock.pending_timers == 0


@pytest.mark.parametrize("seconds", [0, -1])
async def test_no_time_at_all_passes_without_an_advance(
    clock: VirtualClock, seconds: float
) -> None:
    fired: list[float] = []
    clock.call_later(seconds, fired.append, 1)
    clock.call_later(seconds, pytest.fail, "it was cancelled").cancel()
    assert fired == []
    await clock.sleep(seconds)
    assert fired == [1]
    assert clock.monotonic() == 0.0


async def test_what_is_due_while_the_loop_is_blocked_fires_late() -> None:
    clock = VirtualClock()
    fired: list[float] = []
    clock.call_later(1, lambda: fired.append(clock.monotonic()))
    clock.block(5)
    assert fired == []
    await clock.advance(1)
    assert fired == [5]
