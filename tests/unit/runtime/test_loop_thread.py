"""The thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading

import pytest

from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.loop_thread import LoopThread


async def thread_name() -> str:
    return threading.current_thread().name


def test_coroutines_and_functions_run_on_the_thread_until_it_is_stopped() -> None:
    thread = LoopThread("worker")
    assert thread.run(thread_name()) == "worker"
    assert thread.call(lambda *, of: (of, threading.current_thread().name), of=1) == (1, "worker")
    thread.stop()
    thread.stop()
    assert "worker" not in {t.name for t in threading.enumerate()}


async def test_a_coroutine_waits_for_the_thread_without_blocking_its_own_loop() -> None:
    thread = LoopThread("worker")
    release = asyncio.Event()

    async def released() -> str:
        caller.call_soon_threadsafe(release.set)
        return await thread_name()

    caller = asyncio.get_running_loop()
    name, _ = await asyncio.gather(thread.wait(released()), release.wait())
    assert name == "worker"
    thread.stop()


def test_the_thread_cannot_wait_for_itself() -> None:
    thread = LoopThread("worker")
    with pytest.raises(UsageError, match="worker cannot wait for that thread"):
        thread.call(lambda: thread.run(thread_name()))
    thread.stop()


def test_all_share_one_thread_which_ends_with_the_last_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LoopThread, "_shared", None)  # other tests may have clients that are open
    first = LoopThread.shared()
    assert LoopThread.shared() is first
    assert first.run(thread_name()) == "pocketmq-client"
    (thread,) = {t for t in threading.enumerate() if t is first._thread}
    first.leave()
    assert first.run(thread_name()) == "pocketmq-client"
    first.leave()
    assert not thread.is_alive()
    again = LoopThread.shared()
    assert again is not first
    again.leave()


def test_what_is_left_is_cancelled_in_the_end() -> None:
    thread = LoopThread("worker")
    task = thread.call(lambda: asyncio.ensure_future(asyncio.Event().wait()))
    thread.stop()
    assert task.cancelled()
