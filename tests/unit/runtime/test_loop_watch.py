from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable

import pytest

from pocketmq.runtime.loop_watch import BLOCKED_S, LOG_PERIOD_S, TICK_S, LoopWatch
from pocketmq.testing.clock import VirtualClock


async def block(clock: VirtualClock, late_s: float) -> None:
    """Blocks the loop so that the next tick is so late."""
    clock.block(TICK_S + late_s)
    await clock.advance(0)


async def test_a_loop_on_time_is_not_blocked(clock: VirtualClock) -> None:
    watch = LoopWatch(clock)
    for _ in range(10):
        watch.began(310)
        await clock.advance(0.01)
    assert watch.count == 0
    assert watch.max_s == pytest.approx(0)


async def test_a_late_tick_is_counted_and_told(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    cpu = iter((0.0, 0.4, 0.5))
    watch = LoopWatch(clock, lambda: next(cpu))
    watch.began(34)
    with caplog.at_level(logging.WARNING):
        await block(clock, 0.48)
    assert watch.count == 1
    assert watch.max_s == pytest.approx(0.48)
    assert "blocked for 480 ms, of which it worked 400 ms; begun last: request 34" in caplog.text


async def test_waiting_for_a_busy_machine_is_no_warning(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    worked_s = 0.0
    watch = LoopWatch(clock, lambda: worked_s)
    with caplog.at_level(logging.INFO):
        watch.began(310)
        await block(clock, 0.5)
        watch.began(34)
        worked_s = 0.3
        await block(clock, 0.3)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert watch.count == 2


async def test_a_tick_that_is_a_little_late_is_only_noted(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = LoopWatch(clock)
    watch.began(10)
    await block(clock, BLOCKED_S - 0.001)
    assert watch.count == 0
    assert watch.max_s == pytest.approx(BLOCKED_S - 0.001)
    assert caplog.text == ""


async def test_what_began_before_the_last_tick_may_block_after_it(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = LoopWatch(clock, clock.stopwatch)
    watch.began(310)
    await clock.advance(TICK_S)
    await block(clock, 1)
    assert "begun last: request 310" in caplog.text


async def test_an_idle_loop_is_not_asked(clock: VirtualClock) -> None:
    watch = LoopWatch(clock)
    assert clock.pending_timers == 0
    watch.began(310)
    assert clock.pending_timers == 1
    await clock.advance(TICK_S)
    assert clock.pending_timers == 1
    await clock.advance(TICK_S)
    assert clock.pending_timers == 0
    watch.began(310)
    assert clock.pending_timers == 1
    watch.close()
    assert clock.pending_timers == 0


async def test_many_blockages_are_told_of_together(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = LoopWatch(clock, clock.stopwatch)
    for _ in range(4):
        watch.began(310)
        await block(clock, 0.1)
    assert watch.count == 4
    assert len(caplog.records) == 1
    watch.began(310)
    await block(clock, LOG_PERIOD_S)
    assert len(caplog.records) == 2
    assert "and 3 times since this was last told" in caplog.text


async def test_an_action_is_measured(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    watch = LoopWatch(clock, clock.stopwatch)
    assert watch.watched("cleaning", lambda: clock.block(1))() is None
    assert (watch.count, watch.max_s) == (1, 1)
    assert "begun last: cleaning" in caplog.text
    assert clock.pending_timers == 0


async def test_a_coroutine_is_measured_between_its_waits(clock: VirtualClock) -> None:
    watch = LoopWatch(clock)

    async def action() -> str:
        clock.block(0.02)
        await clock.sleep(60)
        clock.block(0.04)
        await clock.sleep(0)
        clock.block(0.06)
        return "done"

    waiting = watch.watched("keys", action)()
    assert isinstance(waiting, Awaitable)
    task = asyncio.ensure_future(waiting)
    await clock.advance(61)
    assert await task == "done"
    assert watch.count == 1
    assert watch.max_s == pytest.approx(0.06)


async def test_a_measured_coroutine_is_told_of_its_cancellation_and_tells_of_errors(
    clock: VirtualClock,
) -> None:
    watch = LoopWatch(clock)
    told = []

    async def action() -> None:
        try:
            await clock.sleep(60)
        except asyncio.CancelledError as e:
            told.append(e)
            raise ValueError("at the end") from e

    waiting = watch.watched("keys", action)()
    assert isinstance(waiting, Awaitable)
    task = asyncio.ensure_future(waiting)
    await clock.advance(1)
    task.cancel()
    with pytest.raises(ValueError, match="at the end"):
        await task
    assert len(told) == 1
