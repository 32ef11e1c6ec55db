"""Tests under a real Airflow, which `make airflow` installs; elsewhere there is nothing to collect.

Airflow reads its settings when it is imported, so they are set here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import pytest_asyncio

from pocketmq.testing import AsyncCluster, LocalCluster

AIRFLOW = find_spec("airflow")  # the folder of that name is no package, and has no origin

if AIRFLOW is None or AIRFLOW.origin is None:
    collect_ignore_glob = ["test_*.py"]
else:
    HOME = TemporaryDirectory(prefix="airflow-")
    os.environ.update(
        AIRFLOW_HOME=HOME.name,
        AIRFLOW__CORE__DAGS_FOLDER=str(Path(__file__).parent / "dags"),
        AIRFLOW__CORE__LOAD_EXAMPLES="False",
        AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION="False",
        AIRFLOW__LOGGING__LOGGING_LEVEL="WARNING",
    )


@pytest.fixture(scope="session")
def home() -> Path:
    """Airflow's folder, with a database."""
    subprocess.run(
        [sys.executable, "-m", "airflow", "db", "migrate"], check=True, capture_output=True
    )
    return Path(HOME.name)


@pytest_asyncio.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AsyncCluster]:
    """A cluster that the connection `pocketmq_default` names."""
    async with LocalCluster(grpc_port=-1) as cluster:
        await cluster.create_topic("Orders", 1)
        host, _, port = cluster.namesrv.partition(":")
        connection = {"conn_type": "pocketmq", "host": host, "port": int(port)}
        monkeypatch.setenv("AIRFLOW_CONN_POCKETMQ_DEFAULT", json.dumps(connection))
        yield cluster


@pytest.fixture
def done(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file where tasks note what they got."""
    file = tmp_path / "done"
    file.touch()
    monkeypatch.setenv("DONE", str(file))
    return file
