"""Runs a whole cluster in the foreground: a name server and N brokers, or broker sets.

A single broker shares the process of the name server. Several brokers have a process each, so that
each has a core of its own; they end with this process, however it ends. `controlled` runs the
cluster with a control API, all in one process.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.replication.arbiter import state_key
from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.broker.store.disk.errors import DirectoryInUseError
from pocketmq.cli.servers.broker_processes import BrokerProcess
from pocketmq.cli.servers.broker_sets import RunningSet, start_sets
from pocketmq.cli.servers.secure import Security
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import check_port
from pocketmq.runtime.tasks import all_ended
from pocketmq.transport.errors import CannotListenError

BROKERS_MAX = 26
"""Brokers of a cluster, which are named broker-a to broker-z."""

AUTO = "auto"
"""In place of a number of brokers: one for each core."""

GRPC_PORT = 8081
"""RocketMQ's port for gRPC."""

PORT_STEP = 1000

REPLICAS_MAX = 5
"""Members of a broker set."""

MEMBER_PORT_STEP = 10
"""Ports of the members of one broker set are so far apart."""

LOOPBACK = "127.0.0.1"


class ClusterOptions(NamedTuple):
    """The options of a cluster.

    Attributes:
        brokers: the number of brokers.
        data: the directory of the data; each broker has its own below it.
        namesrv_port, broker_port: 0 lets the system choose; broker i listens on
            `broker_port` + 1000·i.
        host: the address to listen on, and to tell clients.
        sync_flush: acknowledge a message only when the disk has it.
        gateway: callers that come from this address are told the loopback address; empty for none.
        insecure: whether `host` may be another address than the loopback one.
        security: credentials and keys; None lets everybody do everything.
        grpc_port: of broker-a, for RocketMQ 5's SDKs; 0 lets the system choose, -1 is for none.
        replicas: members of each broker set; 1 is for brokers of their own.
    """

    brokers: int
    data: Path
    namesrv_port: int
    broker_port: int
    host: str
    sync_flush: bool
    gateway: str = ""
    insecure: bool = False
    security: Security | None = None
    grpc_port: int = -1
    replicas: int = 1

    def check(self) -> None:
        """Checks the options before anything starts.

        Raises:
            ConfigError: an option does not fit.
        """
        if not 1 <= self.brokers <= BROKERS_MAX:
            raise ConfigError(
                f"--brokers is {self.brokers}: it must be between 1 and {BROKERS_MAX}"
            )
        if not 1 <= self.replicas <= REPLICAS_MAX:
            raise ConfigError(
                f"--replicas is {self.replicas}: it must be between 1 and {REPLICAS_MAX}"
            )
        kept = kept_replicas(self.data)
        if self.replicas < kept:
            raise ConfigError(
                f"{self.data} holds broker sets of {kept}, whose members may each have messages "
                f"that the others lack: start it with --replicas {kept}, or choose another --data"
            )
        check_port(self.namesrv_port, "the name server (--namesrv-port)")
        for index in range(self.brokers):
            for number in range(self.replicas):
                port = self.broker_port_of(index, number)
                check_port(port, f"{broker_name(index)} (--broker-port)")

    def broker_port_of(self, index: int, number: int = 0) -> int:
        """Returns the port of one broker, or of a member of its set, counted from 0."""
        step = PORT_STEP * index + MEMBER_PORT_STEP * number
        return self.broker_port + step if self.broker_port else 0

    def grpc_port_of(self, index: int, number: int = 0) -> int:
        """Returns the gRPC port of one broker, or of a member of its set; -1 for none."""
        if index:
            return -1
        return self.grpc_port + number if self.grpc_port > 0 else self.grpc_port

    def common_settings(self) -> dict[str, Any]:
        """Returns the settings of all brokers, under the keys of their YAML files."""
        return {
            "bindAddress": self.host,
            "insecure": self.insecure,
            "brokerIP1": "" if self.host in ("0.0.0.0", "::") else self.host,  # noqa: S104
            "flushDiskType": "SYNC_FLUSH" if self.sync_flush else "ASYNC_FLUSH",
            **({} if self.security is None else self.security.broker_settings()),
        }

    def namesrv_settings(self) -> dict[str, Any]:
        """Returns the settings of the name server, under the keys of its YAML file."""
        return {
            "bindAddress": self.host,
            "insecure": self.insecure,
            "kvConfigPath": self.kv_config_path(),
            **({"arbiterPath": self.arbiter_path()} if self.replicas > 1 else {}),
            **({} if self.security is None else self.security.namesrv_settings()),
        }

    def kv_config_path(self) -> str:
        """Returns the path of the name server's KV configuration."""
        return str(self.data / "namesrv" / "kvConfig.json")

    def arbiter_path(self) -> str:
        """Returns the path of the file of the name server's arbiter."""
        return str(self.data / "namesrv" / "arbiter.db")


class ClusterAddresses(NamedTuple):
    """The addresses of a cluster.

    Attributes:
        namesrv: of the name server.
        brokers: of the brokers by name; members of broker sets are called broker-a/1.
        control: the URL of the control API.
        console: the URL of the console.
        grpc: where RocketMQ 5's SDKs are served.
        processes: the numbers of the processes of members, by name.
    """

    namesrv: str
    brokers: dict[str, str]
    control: str | None = None
    console: str | None = None
    grpc: str | None = None
    processes: dict[str, int] | None = None


def broker_count(wanted: str, data: Path | None) -> int:
    """Reads how many brokers are wanted: a number, or `auto`.

    `auto` is one for each core that this process may use, at most `BROKERS_MAX`. It is never less
    than the data directory has brokers: what they hold must not be left out because a machine has
    fewer cores than the one before.

    Args:
        wanted: the option's text.
        data: the data directory; None for a new one.

    Raises:
        ConfigError: it is neither.
    """
    if wanted != AUTO:
        try:
            return int(wanted)
        except ValueError:
            raise ConfigError(
                f"--brokers is {wanted!r}: it must be {AUTO} or between 1 and {BROKERS_MAX}"
            ) from None
    names = [broker_name(index) for index in range(BROKERS_MAX)]
    kept = [n for n, name in enumerate(names, 1) if data is not None and (data / name).is_dir()]
    return max(min(cores(), BROKERS_MAX), *kept, 1)


def cores() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def broker_name(index: int) -> str:
    """Returns the name of the broker with an index."""
    return f"broker-{chr(ord('a') + index)}"


def member_name(index: int, number: int) -> str:
    """Returns the name of a member of the set of a broker with an index, counted from 0."""
    return f"{broker_name(index)}/{number + 1}"


def member_directory(data: Path, name: str, number: int) -> Path:
    """Returns a member's directory; the first one's is that of a broker without a set."""
    return data / (f"{name}-{number + 1}" if number else name)


def kept_replicas(data: Path) -> int:
    """Returns of how many members the largest broker set is that a directory has."""
    names = [broker_name(index) for index in range(BROKERS_MAX)]
    numbers = range(1, REPLICAS_MAX)
    kept = [n + 1 for x in names for n in numbers if member_directory(data, x, n).is_dir()]
    return max(kept, default=1)


def broker_settings(
    options: ClusterOptions, index: int, namesrv: str, number: int = 0
) -> dict[str, object]:
    """Makes the settings of one broker, under the keys of its YAML file.

    Args:
        options: of the cluster.
        index: which broker.
        namesrv: the address of the name server.
        number: which member of its set, counted from 0.
    """
    name = broker_name(index)
    port = options.broker_port_of(index, number)
    of_set = {"enableControllerMode": True, "brokerId": number + 1}
    return {
        **options.common_settings(),
        "brokerName": name,
        "listenPort": port,
        "grpcServerPort": options.grpc_port_of(index, number),
        "namesrvAddr": namesrv,
        "storePathRootDir": str(member_directory(options.data, name, number)),
        "advertise": rules_of_gateway(options.gateway, port),
        **(of_set if options.replicas > 1 else {}),
    }


def rules_of_gateway(gateway: str, port: int) -> list[dict[str, Any]]:
    """Makes the rules that tell callers from a gateway a broker's address (`advertise`)."""
    return [{"addr": f"{LOOPBACK}:{port}", "callers": [gateway]}] if gateway else []


@asynccontextmanager
async def cluster(options: ClusterOptions) -> AsyncIterator[ClusterAddresses]:
    """Starts a cluster; it answers when the context is entered.

    Raises:
        ConfigError: more brokers than letters, or an address is in use.
        OperatingError: a broker does not start.
    """
    import msgspec

    options.check()
    options.data.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        settings = {"listenPort": options.namesrv_port, **options.namesrv_settings()}
        config = msgspec.convert(settings, NamesrvConfig)
        with in_options():
            name_server = await stack.enter_async_context(NameServer(config))
        addresses = {}
        processes: dict[str, int] | None = None
        grpc_port: int | None = options.grpc_port if options.grpc_port > 0 else None
        if options.replicas > 1:
            sets = [_broker_set(options, i, name_server) for i in range(options.brokers)]
            await start_sets(stack, sets)
            members = [member for one in sets for member in one.members]
            addresses = {member.name: member.address for member in members}
            processes = {member.name: member.pid for member in members}
        elif options.brokers == 1:
            settings = broker_settings(options, 0, name_server.address)
            with in_options():
                broker = await stack.enter_async_context(
                    Broker(msgspec.convert(settings, BrokerConfig))
                )
            addresses[broker.config.broker_name] = broker.address
            grpc_port = broker.grpc_port
        else:
            addresses = await _start_brokers(stack, options, name_server.address)
        yield ClusterAddresses(
            name_server.address,
            addresses,
            grpc=grpc_address(addresses, grpc_port, options.replicas),
            processes=processes,
        )


async def _start_brokers(
    stack: AsyncExitStack, options: ClusterOptions, namesrv: str
) -> dict[str, str]:
    """Starts brokers in processes; returns their addresses by name."""
    brokers = [
        BrokerProcess(broker_name(i), broker_settings(options, i, namesrv), options.security)
        for i in range(options.brokers)
    ]
    for broker in brokers:
        stack.push_async_callback(broker.stop)
    await all_ended(*(broker.start() for broker in brokers))
    return {broker.name: broker.address for broker in brokers}


def _broker_set(options: ClusterOptions, index: int, name_server: NameServer) -> RunningSet:
    """Makes the broker set with an index, which has not been started."""
    name = broker_name(index)
    members = [
        BrokerProcess(
            member_name(index, number),
            broker_settings(options, index, name_server.address, number),
            options.security,
        )
        for number in range(options.replicas)
    ]
    key = state_key(BrokerConfig().broker_cluster_name, name)

    def state() -> SetState | None:
        assert name_server.arbiter is not None
        value, version = name_server.arbiter.read(key)
        return decode_state(value) if version else None

    def is_served() -> bool:
        data = name_server.routes.cluster_info().broker_addr_table.get(name)
        return data is not None and 0 in data.broker_addrs

    return RunningSet(name, members, state, is_served)


def grpc_address(brokers: dict[str, str], port: int | None, replicas: int = 1) -> str | None:
    """Returns where RocketMQ 5's SDKs are served: at broker-a's host, by whichever member leads."""
    if port is None:
        return None
    host = next(iter(brokers.values())).rpartition(":")[0]
    return ";".join(f"{host}:{port + number}" for number in range(replicas))


@contextlib.contextmanager
def in_options() -> Iterator[None]:
    """Turns errors of a start into errors that name the options that help.

    Raises:
        ConfigError: a port or a directory is in use.
    """
    try:
        yield
    except CannotListenError as e:
        option = "--namesrv-port" if "name server" in e.server else "--broker-port"
        if "grpcServerPort" in e.server:
            option = "--grpc-port"
        raise ConfigError(
            f"{e.seen}; stop what uses the port, or choose another {option}, or 0, and the system "
            f"chooses a free one"
        ) from e
    except DirectoryInUseError as e:
        raise ConfigError(
            f"{e.seen}: stop the cluster that has it, or choose another by --data or --memory"
        ) from e
