from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest

from pocketmq.runtime.tasks import Tasks, repeat
from pocketmq.testing.clock import VirtualClock, settle


async def test_close_cancels_and_waits() -> None:
    tasks, ended = Tasks(), []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await settle(3)
            ended.append(True)

    tasks.spawn(work(), "first")
    tasks.spawn(work(), "second")
    await settle(1)
    assert len(tasks) == 2
    await tasks.close()
    await tasks.close()
    assert (len(tasks), ended) == (0, [True, True])


async def test_who_ignores_its_cancellation_is_waited_for_so_long(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tasks, release = Tasks(), asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    task = tasks.spawn(stubborn(), "the stubborn")
    await settle(1)
    closing = asyncio.ensure_future(tasks.close(clock, 2))
    await clock.advance(1.9)
    assert not closing.done()
    await clock.advance(0.1)
    await closing
    assert "the task the stubborn ignores its cancellation" in caplog.text
    release.set()
    await task


async def test_a_failure_is_logged_with_the_task_s_name(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    async def fail() -> None:
        raise RuntimeError("broken")

    with caplog.at_level(logging.ERROR):
        tasks.spawn(fail(), "the sweeper")
        await settle(5)
    assert "the task the sweeper failed" in caplog.text
    assert "RuntimeError: broken" in caplog.text
    assert len(tasks) == 0
    await tasks.close()


async def test_a_result_is_quiet(caplog: pytest.LogCaptureFixture) -> None:
    tasks = Tasks()

    async def work() -> int:
        return 7

    assert await tasks.spawn(work(), "work") == 7
    await settle(2)
    assert (len(tasks), caplog.text) == (0, "")


async def test_a_task_may_close_its_owner() -> None:
    tasks = Tasks()
    other = tasks.spawn(asyncio.Event().wait(), "other")
    await tasks.spawn(tasks.close(), "closer")
    assert other.cancelled()


@pytest.mark.parametrize(
    ("first_s", "times"),
    [(None, [30, 60, 90]), (0, [0, 30, 60, 90]), (5, [5, 35, 65, 95])],
)
async def test_repeat(clock: VirtualClock, first_s: float | None, times: list[float]) -> None:
    seen: list[float] = []
    tasks = Tasks()
    tasks.spawn(
        repeat(clock, 30, lambda: seen.append(clock.monotonic()), first_s=first_s), "repeat"
    )
    await clock.advance(99)
    assert seen == times
    await tasks.close()
    assert clock.pending_timers == 0


async def test_repeat_counts_from_the_end_of_a_round_and_survives_errors(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[float] = []

    async def action() -> None:
        seen.append(clock.monotonic())
        await clock.sleep(5)
        if len(seen) == 2:
            raise RuntimeError("once")

    tasks = Tasks()
    with caplog.at_level(logging.ERROR):
        tasks.spawn(repeat(clock, 30, action), "repeat")
        await clock.advance(110)
    assert seen == [30, 65, 100]
    assert "a periodic action failed; it is tried again in 30 s" in caplog.text
    await tasks.close()
