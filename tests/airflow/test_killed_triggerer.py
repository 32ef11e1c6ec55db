"""A triggerer is killed while a task waits: the next one ends the task, no message is lost."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, closing
from pathlib import Path

import pytest
import pytest_asyncio
from support.airflow.orders import send
from support.airflow.processes import airflow, listens, settings_of_airflow, until
from support.worker_process import lines_of

from pocketmq.broker import Broker
from pocketmq.testing import AsyncCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

GROUP, PAID = "shipping", "paid"


def count_of(home: Path, rows: str) -> int:
    """How many rows of Airflow's database there are."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        (count,) = database.execute(f"SELECT count(*) FROM {rows}").fetchone()
    return int(count)


class Shipping:
    """Servers of Airflow without a triggerer, and runs of the DAG whose task waits.

    Args:
        home: Airflow's folder.
        broker: has the messages.
        settings: of Airflow.
    """

    def __init__(self, home: Path, broker: Broker, settings: dict[str, str]) -> None:
        self._home, self._broker, self.settings = home, broker, settings

    async def wait(self) -> None:
        """Starts a run, and returns when its task has left the waiting to the triggerer."""
        deferred = "task_instance WHERE dag_id = 'shipping' AND state = 'deferred'"
        async with airflow("dags", "trigger", "shipping", **self.settings) as process:
            assert await process.wait() == 0
        await until(lambda: count_of(self._home, deferred) == 1)
        await until(self.waits_in_broker)

    def waits_in_broker(self) -> bool:
        """Whether a triggerer has asked for a message, and there was none."""
        return self._broker.parts.waiting.count_of(GROUP, "Orders", -1) > 0

    @property
    def in_flight(self) -> int:
        """Messages that were given to triggerers and not acknowledged."""
        return self._broker.parts.popping.queues.count_of_group(GROUP)


@pytest_asyncio.fixture
async def shipping(cluster: AsyncCluster, home: Path, done: Path) -> AsyncIterator[Shipping]:
    settings = settings_of_airflow() | {
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret that all servers share " * 2,
        "AIRFLOW__TRIGGERER__JOB_HEARTBEAT_SEC": "1",
        "AIRFLOW__TRIGGERER__TRIGGERER_HEALTH_CHECK_THRESHOLD": "10",
    }
    [broker] = cluster.thread.call(cluster.core.brokers)
    async with AsyncExitStack() as stack:
        for server in ("api-server", "scheduler", "dag-processor"):
            await stack.enter_async_context(airflow(server, **settings))
        await until(lambda: listens(settings["AIRFLOW__API__PORT"]))
        await until(lambda: count_of(home, "dag WHERE dag_id = 'shipping'") == 1)
        yield Shipping(home, broker, settings)


async def test_the_next_triggerer_ends_a_task_whose_triggerer_was_killed(
    cluster: AsyncCluster, shipping: Shipping, done: Path
) -> None:
    async with airflow("triggerer", **shipping.settings):
        await shipping.wait()
    # It was killed, and nobody waits for the message.
    await send(cluster, "while there was none", tags=PAID)
    async with airflow("triggerer", **shipping.settings):
        await until(lambda: len(lines_of(done)) == 1)
        await shipping.wait()
        with cluster.faults.drop_reply(request="POP_MESSAGE", group=GROUP) as lost:
            await send(cluster, "while it was killed", tags=PAID)
            await until(lambda: lost.count and shipping.in_flight == 1)
    # It had the message in flight as it was killed.
    async with airflow("triggerer", **shipping.settings):
        await until(lambda: len(lines_of(done)) == 2)
        await until(lambda: shipping.in_flight == 0)
    assert lines_of(done) == ["shipped while there was none", "shipped while it was killed"]
