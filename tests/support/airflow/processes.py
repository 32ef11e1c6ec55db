"""Commands of a real Airflow, and patience with them."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from pocketmq.runtime.clock import SystemClock

DONE_S_MAX = 300.0
POLL_S = 0.2
LOCALHOST = "127.0.0.1"

LOG = Path(os.environ["AIRFLOW_HOME"]) / "airflow.log"


@asynccontextmanager
async def airflow(*words: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A command of Airflow, with all processes that it starts."""
    bin_folder = Path(sys.executable).parent
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    with LOG.open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            bin_folder / "airflow", *words, env={**os.environ, "PATH": path, **environment},
            start_new_session=True, stdout=log, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
    try:
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def settings_of_airflow() -> dict[str, str]:
    """Free ports for the servers of Airflow, and patience, as its settings."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server((LOCALHOST, 0))) for _ in range(3)]
        api, *logs = (str(server.getsockname()[1]) for server in servers)
    return {
        "AIRFLOW__API__HOST": LOCALHOST,
        "AIRFLOW__API__PORT": api,
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{LOCALHOST}:{api}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__WORKERS__EXECUTION_API_TIMEOUT": str(DONE_S_MAX),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": logs[0],
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": logs[1],
    }


async def until(condition: Callable[[], object]) -> None:
    """Waits for Airflow."""
    clock = SystemClock()
    end_s = clock.monotonic() + DONE_S_MAX
    while not condition():
        assert clock.monotonic() < end_s, LOG.read_text("utf-8", "replace")[-5000:]
        await clock.sleep(POLL_S)


def listens(port: str) -> bool:
    with socket.socket() as caller:
        return caller.connect_ex((LOCALHOST, int(port))) == 0
