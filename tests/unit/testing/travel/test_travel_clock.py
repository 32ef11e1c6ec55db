"""The clock that can be set forward while others wait in real time."""

from __future__ import annotations

import asyncio
import math

import pytest

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.tasks import repeat
from pocketmq.testing.clock import pass_turns
from pocketmq.testing.travel.settling import Settling
from pocketmq.testing.travel.travel_clock import ClientClock, TravelClock

START_MS = 1_800_000_000_000


def standing() -> TravelClock:
    settling = Settling(clock_machine := TravelClock().machine)
    clock = TravelClock(clock_machine, is_running=False, start_ms=START_MS, settle=settling.wait)
    settling.watch(clock)
    return clock


async def test_timers_fire_in_order_at_their_own_moments() -> None:
    clock, seen = standing(), []

    def note(name: str) -> None:
        seen.append((name, clock.now_ms() - START_MS))

    clock.call_later(7200, note, "late")
    clock.call_later(1.5, note, "early")
    clock.call_later(3600, lambda: clock.call_later(60, note, "chained"))
    clock.call_later(60, note, "cancelled").cancel()
    await clock.advance(7200)
    assert seen == [("early", 1500), ("chained", 3_660_000), ("late", 7_200_000)]
    assert clock.now_ms() == START_MS + 7_200_000
    assert clock.monotonic() == 7200


async def test_what_a_timer_begins_is_done_before_time_moves_on() -> None:
    clock, seen = standing(), []

    async def work() -> None:
        await clock.sleep(1)
        for _ in range(10):
            await clock.sleep(0)
        seen.append(clock.monotonic())
        await clock.sleep(1)
        seen.append(clock.monotonic())

    task = asyncio.ensure_future(work())
    await clock.advance(10)
    assert seen == [1, 2]
    assert task.done()


async def test_it_stands_still_unless_it_runs() -> None:
    clock = standing()
    before = clock.now_ms(), clock.monotonic()
    machines_clock = clock.machine
    await machines_clock.sleep(0)
    assert (clock.now_ms(), clock.monotonic()) == before


async def test_a_running_clock_goes_on_by_itself() -> None:
    clock = TravelClock(start_ms=START_MS)
    await clock.sleep(0.001)
    assert clock.now_ms() > START_MS
    fired = asyncio.Event()
    clock.call_later(3600, fired.set)
    await clock.advance(3599.999)
    await fired.wait()  # the last millisecond passes by itself
    assert clock.now_ms() >= START_MS + 3_600_000
    clock.close()


async def test_a_message_of_this_millisecond_is_due_after_its_delay() -> None:
    clock, fired = TravelClock(start_ms=START_MS), []
    for _ in range(50):
        due_ms = clock.now_ms() + 60_000

        def look(due_ms: int) -> None:
            left_ms = due_ms - clock.now_ms()
            if left_ms > 0:
                clock.call_later(left_ms / 1000, look, due_ms)
            else:
                fired.append(due_ms)

        look(due_ms)
        await clock.advance(60)
        assert fired.pop() == due_ms
    clock.close()


@pytest.mark.parametrize("later_us", [1, 10, 999, 1000])
async def test_a_jump_ends_where_it_was_told_to(later_us: int) -> None:
    """A timer that is due a part of a millisecond later does not draw the clock on to its time."""
    clock, fired = standing(), list[int]()
    clock.call_later(10 + later_us / 1_000_000, fired.append, later_us)
    await clock.advance(10)
    assert (clock.now_ms() - START_MS, clock.monotonic(), fired) == (10_000, 10, [])
    await clock.advance(0.001)
    assert (clock.now_ms() - START_MS, fired) == (10_001, [later_us])


async def test_parts_of_a_millisecond_add_up() -> None:
    clock = standing()
    for _ in range(3000):
        await clock.advance(1 / 3000)
    assert clock.now_ms() - START_MS == 999  # 3000 times 333 microseconds


async def test_a_timer_of_a_running_clock_comes_nearer_by_a_jump() -> None:
    """The machine's timer was set for the hour that the jump takes away."""
    clock, fired = TravelClock(start_ms=START_MS), asyncio.Event()
    clock.call_later(3600, fired.set)
    await clock.advance(3599.99)
    assert not fired.is_set()
    await fired.wait()
    assert clock.now_ms() >= START_MS + 3_600_000
    clock.close()


async def test_rounds_with_nothing_to_do_cost_nothing() -> None:
    settled, seen = 0, []

    async def settle() -> None:
        nonlocal settled
        settled += 1
        await pass_turns(1)

    clock = TravelClock(is_running=False, start_ms=START_MS, settle=settle)
    work: list[float] = [1000, 1000, 86_400]

    def idle_s() -> float:
        return work[0] - clock.monotonic() if work else math.inf

    def act() -> None:
        seen.append(clock.monotonic())
        while work and work[0] <= clock.monotonic():
            del work[0]

    task = asyncio.ensure_future(repeat(clock, 30, act, idle_s=idle_s))
    await pass_turns(1)
    await clock.advance(400 * 86_400)
    assert seen == [1020, 86_400]  # the first rounds at that time, or after it
    assert settled == 3
    clock.call_later(45, work.append, clock.monotonic() + 50)
    await clock.advance(120)
    assert seen[2:] == [400 * 86_400 + 60]  # what another timer brings is found in the next round
    clock.call_later(10, lambda: None)
    await clock.advance(10)
    assert (seen[3:], clock.monotonic()) == ([], 400 * 86_400 + 130)
    task.cancel()


async def test_rounds_of_a_running_clock_go_on() -> None:
    clock, rounds = TravelClock(start_ms=START_MS), asyncio.Semaphore(0)
    task = asyncio.ensure_future(repeat(clock, 0.001, rounds.release, idle_s=lambda: math.inf))
    for _ in range(3):
        await rounds.acquire()
    task.cancel()
    clock.close()


async def test_time_does_not_go_back() -> None:
    with pytest.raises(UsageError, match="cannot be set back by 5 s"):
        await standing().advance(-5)


async def test_jumps_at_the_same_time_follow_each_other() -> None:
    clock = standing()
    await asyncio.gather(clock.advance(10), clock.advance(20))
    assert clock.monotonic() == 30


async def test_clients_wait_in_real_time_and_stamp_the_clusters() -> None:
    clock, loops = standing(), set[asyncio.AbstractEventLoop]()
    clients_clock = ClientClock(clock, loops.add)
    began = clients_clock.monotonic()
    slept = asyncio.ensure_future(clients_clock.sleep(86_400))
    await clock.advance(86_400)
    assert not slept.done()
    slept.cancel()
    assert clients_clock.now_ms() == START_MS + 86_400_000
    assert clients_clock.monotonic() - began < 86_400
    assert loops == {asyncio.get_running_loop()}
    await clients_clock.sleep(0)
