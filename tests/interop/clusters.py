"""The clusters under test: this project's, and Apache's own to compare with."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from interop import maven
from interop.processes import running

SERVER_PROJECT = Path(__file__).parent / "server"
SERVER_VERSION = "5.5.0"
BROKER_NAME = "broker-a"
# Apache's servers log little else to the console.
BOOTED = re.compile(r"boot success")
POCKETMQ_UP = re.compile(r"^up\b.*")
ADDRESS = re.compile(r"\b([\w-]+)=([\w.\[\]:-]+:\d+)")
QUIET_LOGGING = '<configuration><root level="ERROR"/></configuration>'
PORT_TRIES_MAX = 50


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


def build_apache_servers(server_version: str = SERVER_VERSION) -> str:
    """The class path of Apache's servers. Raises maven.BuildFailure."""
    target = maven.build(
        SERVER_PROJECT,
        SERVER_PROJECT / "target" / server_version,
        f"-Dserver.version={server_version}",
        "dependency:copy-dependencies",
    )
    return f"{target / 'dependency'}/*"


@dataclass(frozen=True)
class ApachePorts:
    """Where Apache's servers listen, and what address they give to others.

    The two differ only behind a proxy: the broker registers at ``registration`` (the name server
    itself by default) and tells clients ``127.0.0.1:broker`` while it binds ``broker_host``.
    """

    namesrv: int
    broker: int
    broker_host: str = "127.0.0.1"
    registration: int | None = None


@contextmanager
def apache_cluster(
    folder: Path, ports: ApachePorts | None = None, serialize_type: str = "JSON"
) -> Iterator[Cluster]:
    """Run Apache's name server and one broker with automatic topic creation, data in ``folder``.

    ``serialize_type`` (JSON or ROCKETMQ) is the header codec of what the servers send.
    Raises maven.BuildFailure and processes.StartFailure.
    """
    classpath = build_apache_servers()
    ports = ports or ApachePorts(free_port(), free_broker_port())
    namesrv_file, broker_file = _write_config(folder, ports)
    command = ["java", f"-Duser.home={folder}", "-Xmx512m", "-XX:MaxDirectMemorySize=1g"]
    command += [f"-Drocketmq.serialize.type={serialize_type}"]
    logging = f"-Drmq.logback.configurationFile={folder / 'conf' / 'logback.xml'}"
    command += [logging, "-cp", classpath]
    root = {"ROCKETMQ_HOME": str(folder)}
    start = "org.apache.rocketmq.namesrv.NamesrvStartup"
    with running([*command, start, "-c", str(namesrv_file)], BOOTED, environment=root):
        start = "org.apache.rocketmq.broker.BrokerStartup"
        with running([*command, start, "-c", str(broker_file)], BOOTED, environment=root):
            yield Cluster(
                f"127.0.0.1:{ports.registration or ports.namesrv}",
                {BROKER_NAME: f"127.0.0.1:{ports.broker}"},
            )


def free_port() -> int:
    """A port nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def free_broker_port() -> int:
    """A free port whose neighbours are free too: Apache's broker also takes port - 2 and + 1."""
    for _ in range(PORT_TRIES_MAX):
        port = free_port()
        try:
            for neighbour in (port - 2, port + 1):
                socket.create_server(("127.0.0.1", neighbour)).close()
        except OSError:
            continue
        return port
    raise OSError(f"no three free neighbouring ports in {PORT_TRIES_MAX} tries")


def _write_config(folder: Path, ports: ApachePorts) -> tuple[Path, Path]:
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "logback.xml").write_text(QUIET_LOGGING)
    namesrv_file = conf / "namesrv.properties"
    namesrv_file.write_text(f"listenPort={ports.namesrv}\nbindAddress=127.0.0.1\n")
    store = folder / "store"
    settings = {
        "brokerClusterName": "DefaultCluster",
        "brokerName": BROKER_NAME,
        "brokerId": "0",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": str(ports.broker),
        "bindAddress": ports.broker_host,
        "namesrvAddr": f"127.0.0.1:{ports.registration or ports.namesrv}",
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": str(16 << 20),
        "autoCreateTopicEnable": "true",
        "enablePropertyFilter": "true",
        "diskMaxUsedSpaceRatio": "95",
    }
    broker_file = conf / "broker.properties"
    broker_file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return namesrv_file, broker_file
