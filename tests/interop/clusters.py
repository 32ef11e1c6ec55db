"""The cluster under test: ``pocketmq up`` as a subprocess."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop.processes import running

POCKETMQ_UP = re.compile(r"^up\b.*")
ADDRESS = re.compile(r"\b([\w-]+)=([\w.\[\]:-]+:\d+)")


@dataclass(frozen=True)
class Cluster:
    """Where a cluster listens; ``brokers`` maps names to addresses and is empty when unknown."""

    namesrv: str
    brokers: dict[str, str] = field(default_factory=dict)


@contextmanager
def pocketmq_cluster(data: Path, *options: str) -> Iterator[Cluster]:
    """Run ``pocketmq up`` on ports the system chooses. Raises processes.StartFailure."""
    command = [sys.executable, "-m", "pocketmq.cli.main", "up"]
    command += ["--namesrv-port", "0", "--broker-port", "0", "--data", str(data), *options]
    with running(command, POCKETMQ_UP) as up:
        addresses = dict(ADDRESS.findall(up.group()))
        yield Cluster(addresses.pop("namesrv"), addresses)
