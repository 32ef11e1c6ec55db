"""Name servers and brokers of a release, as processes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml
from support.interop.clusters import ADDRESS, HOST, POCKETMQ_UP
from support.interop.processes import running
from support.upgrades.releases import environment

HOURS_KEPT = 87_600
"""Directories that were recorded long ago keep their messages under the machine's clock."""


@contextmanager
def name_server(release: str, folder: Path, **settings: object) -> Iterator[str]:
    """Runs a name server; yields its address. Raises processes.StartFailure."""
    own = {"kvConfigPath": str(folder / "kvConfig.json")}
    with _server(release, "namesrv", folder, own | settings) as addresses:
        yield addresses["namesrv"]


@contextmanager
def broker(
    release: str,
    directory: Path,
    namesrv: str = "",
    *,
    name: str = "broker-a",
    stop_signal: signal.Signals = signal.SIGTERM,
    **settings: object,
) -> Iterator[str]:
    """Runs a broker on a data directory; yields its address. Raises processes.StartFailure."""
    own = {
        "brokerName": name,
        "namesrvAddr": namesrv,
        "storePathRootDir": str(directory),
        "diskSpaceFreeMin": 0,
        "fileReservedTime": HOURS_KEPT,
    }
    with _server(release, "broker", directory.parent, own | settings, stop_signal) as addresses:
        yield addresses[name]


@contextmanager
def _server(
    release: str,
    kind: str,
    folder: Path,
    settings: dict[str, object],
    stop_signal: signal.Signals = signal.SIGTERM,
) -> Iterator[dict[str, str]]:
    name = settings.get("brokerName", kind)
    file = folder / f"{name}-{release}.yaml"
    file.write_text(yaml.safe_dump({"listenPort": 0, "bindAddress": HOST} | settings))
    command = [sys.executable, "-m", "pocketmq.cli.main", kind, "-c", str(file)]
    with running(
        command, POCKETMQ_UP, environment=environment(release), stop_signal=stop_signal
    ) as up:
        yield dict(ADDRESS.findall(up.group()))
