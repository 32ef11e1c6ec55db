"""Apache's own name server and broker, to run this project's client against and to record."""

from __future__ import annotations

import random
import re
import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.interop import maven
from support.interop.clusters import Cluster
from support.interop.processes import running

PROJECT = Path(__file__).parents[2] / "interop" / "server"
SERVER_VERSION = "5.5.0"
CLUSTER_NAME = "DefaultCluster"
BROKER_NAME = "broker-a"
NAMESRV_UP = re.compile("The Name Server boot success")
# The broker registers 10 s after its "boot success"; before that no client finds it.
BROKER_UP = re.compile("Registering current broker to name server completed")
PORT_TRIES_MAX = 50
PORT_BEGIN, PORT_END = 10_240, 65_536
CONNECTION_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()
COMMIT_LOG_FILE_SIZE = 16 << 20
# To the console only, and of the broker enough to see its registration.
LOGGING = """<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %c{0} %m%n</pattern></encoder>
  </appender>
  <logger name="RocketmqBroker" level="INFO"/>
  <root level="WARN"><appender-ref ref="console"/></root>
</configuration>
"""


@dataclass(frozen=True)
class Listening:
    """Where the servers listen, and under which addresses others find them.

    The two differ only with a proxy in front: the broker then registers at ``registration_port``,
    and binds ``broker_host`` while it names 127.0.0.1 (same port) to everybody.
    """

    namesrv_port: int
    broker_port: int
    registration_port: int
    broker_host: str = "127.0.0.1"

    @classmethod
    def directly(cls) -> Listening:
        """On free ports, without a proxy."""
        namesrv_port = free_port()
        return cls(namesrv_port, free_broker_port(), namesrv_port)


@contextmanager
def apache_cluster(
    folder: Path,
    listening: Listening | None = None,
    *,
    serialize_type: str = "JSON",
    stop_signal: signal.Signals = signal.SIGKILL,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Cluster]:
    """Run a name server and one broker with automatic topic creation; their data is in ``folder``.

    ``serialize_type`` (JSON or ROCKETMQ) is the header codec of what the servers send. TERM makes
    the broker unregister, but it then takes some 15 s to end: hence KILL by default. ``settings``
    are further ones of the broker.
    Raises builds.BuildFailure and processes.StartFailure.
    """
    classpath = _build()
    listening = listening or Listening.directly()
    conf = folder / "conf"
    conf.mkdir(parents=True)
    (conf / "logback.xml").write_text(LOGGING)
    java = [
        "java",
        "-Xmx512m",
        "-XX:MaxDirectMemorySize=1g",
        f"-Duser.home={folder}",
        f"-Drocketmq.serialize.type={serialize_type}",
        f"-Drmq.logback.configurationFile={conf / 'logback.xml'}",
        "-cp",
        classpath,
    ]
    home = {"ROCKETMQ_HOME": str(folder)}
    start = "org.apache.rocketmq.namesrv.NamesrvStartup"
    namesrv_conf = _write(conf / "namesrv.properties", _namesrv_settings(listening))
    namesrv = [*java, start, "-c", str(namesrv_conf)]
    start = "org.apache.rocketmq.broker.BrokerStartup"
    broker_settings = _broker_settings(listening, folder / "store") | dict(settings or {})
    broker_conf = _write(conf / "broker.properties", broker_settings)
    broker = [*java, start, "-c", str(broker_conf)]
    with (
        running(namesrv, NAMESRV_UP, environment=home, stop_signal=stop_signal),
        running(broker, BROKER_UP, environment=home, stop_signal=stop_signal),
    ):
        yield Cluster(
            f"127.0.0.1:{listening.registration_port}",
            {BROKER_NAME: f"127.0.0.1:{listening.broker_port}"},
        )


def free_port() -> int:
    """A port nothing listens on now, never the same twice.

    It is none of those that the system gives to connections, where it can be helped: Apache's
    broker takes half a minute until it listens, and others connect meanwhile.
    """
    for port in random.sample(_quiet_ports(), PORT_TRIES_MAX):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    with socket.create_server(("127.0.0.1", 0)) as probe:
        any_port: int = probe.getsockname()[1]
    return any_port


def _quiet_ports() -> range:
    """Ports of users that no connection gets by itself; all, where that is not told."""
    try:
        first_of_connections = int(CONNECTION_PORTS.read_text().split()[0])
    except OSError:
        first_of_connections = PORT_END
    end = first_of_connections if first_of_connections > 2 * PORT_BEGIN else PORT_END
    return range(PORT_BEGIN, end)


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def free_broker_port() -> int:
    """A free port whose neighbours are free too: Apache's broker also takes port - 2 and + 1."""
    for _ in range(PORT_TRIES_MAX):
        port = free_port()
        neighbours = {port - 2, port + 1}
        if not neighbours & _given and all(map(_is_free, neighbours)):
            _given.update(neighbours)
            return port
    raise OSError(f"no three free neighbouring ports in {PORT_TRIES_MAX} tries")


def _build() -> str:
    target = maven.build(
        PROJECT,
        PROJECT / "target" / SERVER_VERSION,
        f"-Dserver.version={SERVER_VERSION}",
        "dependency:copy-dependencies",
    )
    return f"{target / 'dependency'}/*"


def _namesrv_settings(listening: Listening) -> dict[str, object]:
    return {"listenPort": listening.namesrv_port, "bindAddress": "127.0.0.1"}


def _broker_settings(listening: Listening, store: Path) -> dict[str, object]:
    return {
        "brokerClusterName": CLUSTER_NAME,
        "brokerName": BROKER_NAME,
        "brokerId": 0,
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": listening.broker_port,
        "bindAddress": listening.broker_host,
        "namesrvAddr": f"127.0.0.1:{listening.registration_port}",
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "mappedFileSizeCommitLog": COMMIT_LOG_FILE_SIZE,
        "diskMaxUsedSpaceRatio": 95,
        "autoCreateTopicEnable": "true",
        "enablePropertyFilter": "true",
        "transactionCheckInterval": 2000,
        "transactionTimeOut": 1000,
        # A machine that is busy for 200 ms must not look like a broker that refuses.
        "brokerFastFailureEnable": "false",
        "recallMessageEnable": "true",
    }


def _write(file: Path, settings: dict[str, object]) -> Path:
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return file
