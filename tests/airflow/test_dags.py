"""DAGs under a real Airflow: a task that waits for a message, and a run for each message."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.airflow.orders import send
from support.airflow.processes import airflow, listens, settings_of_airflow, until
from support.worker_process import lines_of

from pocketmq.testing import AsyncCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]


async def test_a_task_waits_for_a_message(cluster: AsyncCluster, done: Path) -> None:
    await send(cluster, "an old order", tags="old")
    await send(cluster, "an order")
    async with airflow("dags", "test", "billing") as process:
        assert await process.wait() == 0
    assert lines_of(done) == ["paid an order"]


async def test_messages_start_runs(cluster: AsyncCluster, done: Path) -> None:
    settings = settings_of_airflow()
    async with airflow("standalone", **settings):
        await until(lambda: listens(settings["AIRFLOW__API__PORT"]))
        for count in (1, 2):
            await send(cluster, f"order {count}", tags="cancelled")
            await until(lambda: len(lines_of(done)) == count)  # noqa: B023 (awaited here)
        await cluster.drain("refunds")
    assert lines_of(done) == ["refunded order 1", "refunded order 2"]
