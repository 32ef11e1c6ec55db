"""A real worker of Celery: tasks, retries, delays, remote control, events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.kombu import celery_app
from support.worker_process import CELERY, WorkerProcess, lines_of

from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import LocalCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

DONE_S_MAX = 60.0
POLL_S = 0.02
REPLY_S = 20.0


@pytest.fixture
async def done(tmp_path: Path) -> AsyncIterator[Path]:
    """A cluster and a worker run; the file where tasks note that they ran."""
    file = tmp_path / "done"
    file.touch()
    async with LocalCluster(grpc_port=-1) as cluster:
        url = f"pocketmq://{cluster.namesrv}"
        celery_app.app.conf.update(broker_url=url, broker_read_url=url, broker_write_url=url)
        async with WorkerProcess(CELERY, cluster.namesrv, file):
            yield file
            # Celery keeps the connections of remote control; here nobody uses them any more.
            await asyncio.to_thread(celery_app.app.pool.force_close_all)
        assert not list(cluster.dead_letters("celery", missing_ok=True))


async def notes(done: Path, *wanted: str) -> list[str]:
    """Waits until all of these were noted; all that were."""
    clock = SystemClock()
    end_s = clock.monotonic() + DONE_S_MAX
    while not {*wanted} <= {*(lines := lines_of(done))}:
        assert clock.monotonic() < end_s, f"noted is {lines}"
        await clock.sleep(POLL_S)
    return lines


async def test_a_worker_does_tasks_answers_and_tells_of_them(done: Path) -> None:
    def ask() -> None:
        with celery_app.app.connection_for_write() as connection:
            celery_app.count.apply_async((7,), countdown=1.5, connection=connection)
            for number in range(20, 40):
                celery_app.count.apply_async((number,), connection=connection)
            celery_app.stubborn.apply_async(("stubborn",), connection=connection)
            celery_app.chained.apply_async(("chained",), connection=connection)

    await asyncio.to_thread(ask)
    numbers = [str(number) for number in range(20, 40)]
    lines = await notes(done, *numbers, "stubborn 2", "chained", "4711", "7")
    assert sorted(lines) == sorted(
        [*numbers, "stubborn 0", "stubborn 1", "stubborn 2", "chained", "4711", "7"]
    )
    assert lines.index("7") > lines.index("20")
    await answers_and_events()


async def answers_and_events() -> None:
    """The worker answers a ping, and tells of the tasks that it has done."""
    app = celery_app.app
    seen: list[str] = []

    def ask() -> Any:
        with app.connection_for_write() as connection:
            pong = app.control.ping(timeout=REPLY_S, limit=1, connection=connection)
            events = app.events.Receiver(connection)

            def succeeded(event: dict[str, Any]) -> None:
                seen.append(event["uuid"])
                events.should_stop = "second" in seen

            events.handlers = {"task-succeeded": succeeded}
            events.on_consume_ready = lambda *_, **__: celery_app.count.apply_async(
                (2,), task_id="second", connection=connection
            )
            events.capture(timeout=REPLY_S)
        return pong

    pong = await asyncio.to_thread(ask)
    assert [answer["ok"] for worker in pong for answer in worker.values()] == ["pong"]
    assert "second" in seen
