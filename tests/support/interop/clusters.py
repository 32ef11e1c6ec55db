"""The cluster under test: ``pocketmq up`` as a subprocess, or its servers with settings."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from support.interop.processes import running

POCKETMQ_UP = re.compile(r"^up\b.*")
HOST = "127.0.0.1"
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
        addresses.pop("grpc", None)
        yield Cluster(addresses.pop("namesrv"), addresses)


@contextmanager
def configured_cluster(
    data: Path,
    settings: Mapping[str, object],
    host: str = HOST,
    namesrv_settings: Mapping[str, object] | None = None,
) -> Iterator[Cluster]:
    """Run a name server and a broker with these settings of their YAML files, on free ports.

    Raises processes.StartFailure.
    """
    pocketmq = [sys.executable, "-m", "pocketmq.cli.main"]
    namesrv_file = _write(
        data / "namesrv.yaml",
        {"listenPort": 0, "bindAddress": host, "kvConfigPath": str(data / "kvConfig.json")}
        | dict(namesrv_settings or {}),
    )
    with running([*pocketmq, "namesrv", "-c", str(namesrv_file)], POCKETMQ_UP) as up:
        namesrv = dict(ADDRESS.findall(up.group()))["namesrv"]
        own = {
            "listenPort": 0,
            "bindAddress": host,
            "namesrvAddr": namesrv,
            "storePathRootDir": str(data / "store"),
        }
        broker_file = _write(data / "broker.yaml", {**own, **settings})
        with running([*pocketmq, "broker", "-c", str(broker_file)], POCKETMQ_UP) as up:
            yield Cluster(namesrv, dict(ADDRESS.findall(up.group())))


@contextmanager
def broker_set(data: Path, members: int = 2, **settings: object) -> Iterator[Cluster]:
    """Run a name server with an arbiter and the members of one broker set, on free ports.

    ``brokers`` maps the ids of the members to their addresses. Raises processes.StartFailure.
    """
    pocketmq = [sys.executable, "-m", "pocketmq.cli.main"]
    namesrv_file = _write(
        data / "namesrv.yaml",
        {"listenPort": 0, "bindAddress": HOST, "arbiterPath": str(data / "arbiter.db")},
    )
    with ExitStack() as stack:
        up = stack.enter_context(
            running([*pocketmq, "namesrv", "-c", str(namesrv_file)], POCKETMQ_UP)
        )
        namesrv = dict(ADDRESS.findall(up.group()))["namesrv"]
        brokers: dict[str, str] = {}
        for member_id in range(1, members + 1):
            own: dict[str, object] = {
                "listenPort": 0,
                "bindAddress": HOST,
                "brokerName": "broker-a",
                "brokerId": member_id,
                "namesrvAddr": namesrv,
                "enableControllerMode": True,
                "grpcServerPort": -1,
                "storePathRootDir": str(data / str(member_id)),
            }
            file = _write(data / f"broker-{member_id}.yaml", own | settings)
            up = stack.enter_context(running([*pocketmq, "broker", "-c", str(file)], POCKETMQ_UP))
            brokers[str(member_id)] = dict(ADDRESS.findall(up.group()))["broker-a"]
        yield Cluster(namesrv, brokers)


def _write(file: Path, settings: Mapping[str, object]) -> Path:
    file.write_text(yaml.safe_dump(dict(settings)))
    return file
