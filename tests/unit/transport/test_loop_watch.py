from __future__ import annotations

import logging

import pytest

from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.loop_watch import BLOCKED_S, LOG_PERIOD_S, TICK_S, LoopWatch


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
    watch.began_task("retention")
    watch.began(34)
    with caplog.at_level(logging.WARNING):
        await block(clock, 0.48)
    assert watch.count == 1
    assert watch.max_s == pytest.approx(0.48)
    assert "blocked for 480 ms, of which it worked 400 ms; begun last: request 34" in caplog.text


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
    watch = LoopWatch(clock)
    watch.began(310)
    await clock.advance(TICK_S)
    await block(clock, 1)
    assert "begun last: request 310" in caplog.text


async def test_a_task_is_watched_for_one_tick(clock: VirtualClock) -> None:
    watch = LoopWatch(clock)
    watch.began_task("keys")
    watch.began_task("statistics")
    await clock.advance(TICK_S)
    assert clock.pending_timers == 0


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
    watch = LoopWatch(clock)
    for _ in range(4):
        watch.began(310)
        await block(clock, 0.1)
    assert watch.count == 4
    assert len(caplog.records) == 1
    watch.began(310)
    await block(clock, LOG_PERIOD_S)
    assert len(caplog.records) == 2
    assert "and 3 times since this was last told" in caplog.text


async def test_an_action_says_that_it_has_begun(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    watch = LoopWatch(clock)
    action = watch.watched("cleaning", lambda: clock.block(1))
    action()
    await clock.advance(0)
    assert "begun last: cleaning" in caplog.text
