from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from pocketmq.runtime.clock import SystemClock, within
from pocketmq.testing.clock import Alarm, VirtualClock, settle


async def test_the_system_clock_is_the_machine_s() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    earlier = clock.monotonic()
    fired = asyncio.Event()
    timer = clock.call_later(0.001, fired.set)
    never = clock.call_later(0, pytest.fail, "it was cancelled")
    never.cancel()
    await fired.wait()
    timer.cancel()
    await clock.sleep(0)
    assert clock.monotonic() >= earlier


async def test_within_returns_the_result_and_leaves_no_timer(clock: VirtualClock) -> None:
    async def work() -> str:
        await clock.sleep(2)
        return "done"

    task = asyncio.ensure_future(within(clock, 3, work()))
    await clock.advance(2)
    assert await task == "done"
    assert clock.pending_timers == 0


async def test_within_cancels_what_takes_too_long(clock: VirtualClock) -> None:
    cancelled = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(clock.monotonic())
            raise

    task = asyncio.ensure_future(within(clock, 3, work()))
    await clock.advance(2.999)
    assert not task.done()
    await clock.advance(0.001)
    with pytest.raises(TimeoutError):
        await task
    assert cancelled == [3.0]


async def test_within_passes_errors_on(clock: VirtualClock) -> None:
    async def work() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await within(clock, 3, work())
    assert clock.pending_timers == 0


async def test_cancelling_within_cancels_the_work(clock: VirtualClock) -> None:
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(within(clock, 3, work))
    await settle(2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.cancelled()
    assert clock.pending_timers == 0


async def test_a_cancellation_of_the_work_itself_is_no_time_out(clock: VirtualClock) -> None:
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(within(clock, 3, work))
    await settle(2)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class StoppedClock(VirtualClock):
    """The clock of a process that was stopped: more than one thing is due in the same turn."""

    def call_later(
        self, seconds: float, callback: Callable[..., object], *args: Any
    ) -> Alarm[float]:
        task = asyncio.current_task()
        assert task is not None

        def fire() -> None:
            callback(*args)
            assert task is not None
            task.cancel()

        return super().call_later(seconds, fire)


async def test_a_caller_that_is_cancelled_when_its_time_is_over_ends() -> None:
    clock = StoppedClock()

    async def repeat() -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                await within(clock, 1.0, asyncio.get_running_loop().create_future())

    task = asyncio.create_task(repeat())
    await settle()
    await clock.advance(1.0)
    assert task.cancelled()
