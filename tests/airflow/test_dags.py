"""DAGs under a real Airflow: a task that waits for a message, and a run for each message."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.worker_process import lines_of

from pocketmq.client import Message
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing import AsyncCluster

pytestmark = [pytest.mark.process, pytest.mark.timeout(600)]

DONE_S_MAX = 300.0
POLL_S = 0.2

LOG = Path(os.environ["AIRFLOW_HOME"]) / "airflow.log"


async def send(cluster: AsyncCluster, body: str, tags: str) -> None:
    async with cluster.producer() as producer:
        await producer.send(Message("Orders", body, tags=tags))


@pytest.fixture
def done(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file where tasks note what they got."""
    file = tmp_path / "done"
    file.touch()
    monkeypatch.setenv("DONE", str(file))
    return file


@asynccontextmanager
async def airflow(*words: str, port: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command of Airflow, with all processes that it starts."""
    bin_folder = Path(sys.executable).parent
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
    }
    process = await asyncio.create_subprocess_exec(
        bin_folder / "airflow", *words, env=environment, start_new_session=True,
        stdout=LOG.open("wb"), stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


async def test_a_task_waits_for_a_message(cluster: AsyncCluster, done: Path) -> None:
    await send(cluster, "an old order", "old")
    await send(cluster, "an order", "new")
    async with airflow("dags", "test", "billing") as process:
        assert await process.wait() == 0
    assert lines_of(done) == ["paid an order"]


async def test_messages_start_runs(cluster: AsyncCluster, done: Path) -> None:
    async with airflow("standalone", port=free_port()):
        clock = SystemClock()
        end_s = clock.monotonic() + DONE_S_MAX
        for count in (1, 2):
            await send(cluster, f"order {count}", "cancelled")
            while len(lines_of(done)) < count:
                assert clock.monotonic() < end_s
                await clock.sleep(POLL_S)
        await cluster.drain("refunds")
    assert lines_of(done) == ["refunded order 1", "refunded order 2"]
