"""A real worker of Taskiq: tasks, redeliveries, delays, and a quiet end; what its page shows."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.taskiq import taskiq_app
from support.worker_process import TASKIQ, WorkerProcess, lines_of
from taskiq.kicker import AsyncKicker

from pocketmq.runtime.clock import SystemClock
from pocketmq.taskiq import PocketMQBroker
from pocketmq.testing import LocalCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

DONE_S_MAX = 60.0
POLL_S = 0.02


async def test_a_worker_does_tasks(tmp_path: Path) -> None:
    done = tmp_path / "done"
    done.touch()
    async with LocalCluster(grpc_port=-1) as cluster:
        broker = PocketMQBroker(cluster.namesrv)
        async with broker, WorkerProcess(TASKIQ, cluster.namesrv, done):
            count = taskiq_app.count.kicker().with_broker(broker)
            await count.with_labels(delay=1.5).kiq(7)
            count = taskiq_app.count.kicker().with_broker(broker)
            for number in range(20, 40):
                await count.kiq(number)
            stubborn: AsyncKicker[Any, Any] = taskiq_app.stubborn.kicker().with_broker(broker)
            await stubborn.kiq("stubborn")
            await taskiq_app.chained.kicker().with_broker(broker).kiq("chained")
            numbers = [str(number) for number in range(20, 40)]
            wanted = [*numbers, *(f"stubborn {n}" for n in range(3)), "chained", "4711", "7"]
            clock = SystemClock()
            end_s = clock.monotonic() + DONE_S_MAX
            while not {*wanted} <= {*lines_of(done)}:
                assert clock.monotonic() < end_s, f"noted is {lines_of(done)}"
                await clock.sleep(POLL_S)
        lines = lines_of(done)
        assert sorted(lines) == sorted(wanted)
        assert lines.index("7") > lines.index("20")
        assert not list(cluster.dead_letters("taskiq", missing_ok=True))


async def test_the_page_shows_what_works() -> None:
    page = (Path(__file__).parents[2] / "docs" / "taskiq.md").read_text("utf-8")
    code = "\n".join(re.findall(r"^```python\n(.*?)^```", page, re.M | re.S))
    async with LocalCluster(grpc_port=-1) as cluster:
        shown: dict[str, Any] = {"__name__": __name__}  # Taskiq leaves the functions there
        exec(code.replace("127.0.0.1:9876", cluster.namesrv), shown)
        async with shown["broker"]:
            sent = await shown["pay"].kiq(4711)
            tomorrow = datetime.fromtimestamp(cluster.clock.now_ms() / 1000, UTC) + timedelta(
                days=1
            )
            created = await shown["pay"].schedule_by_time(shown["source"], tomorrow, 4712)
            await created.unschedule()
        (message,) = await cluster.published("orders")
        assert message.keys == (sent.task_id,)
