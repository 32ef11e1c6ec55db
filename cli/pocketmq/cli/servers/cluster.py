"""Runs a whole cluster in the foreground: a name server and N brokers.

A single broker shares the process of the name server. Several brokers have a process each, so that
each has a core of its own; they end with this process, however it ends. `controlled` runs the
cluster with a control API, all in one process.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.store.disk.errors import DirectoryInUseError
from pocketmq.cli.servers.secure import Security
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import ConfigError, OperatingError
from pocketmq.protocol.messages.hosts import check_port
from pocketmq.transport.errors import CannotListenError

BROKERS_MAX = 26
"""Brokers of a cluster, which are named broker-a to broker-z."""

AUTO = "auto"
"""In place of a number of brokers: one for each core."""

GRPC_PORT = 8081
"""RocketMQ's port for gRPC."""

START_TIMEOUT_S = 30.0
PORT_STEP = 1000
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

    def check(self) -> None:
        """Checks the options before anything starts.

        Raises:
            ConfigError: an option does not fit.
        """
        if not 1 <= self.brokers <= BROKERS_MAX:
            raise ConfigError(
                f"--brokers is {self.brokers}: it must be between 1 and {BROKERS_MAX}"
            )
        check_port(self.namesrv_port, "the name server (--namesrv-port)")
        for index in range(self.brokers):
            check_port(self.broker_port_of(index), f"{broker_name(index)} (--broker-port)")

    def broker_port_of(self, index: int) -> int:
        """Returns the port of one broker."""
        return self.broker_port + PORT_STEP * index if self.broker_port else 0

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
            **({} if self.security is None else self.security.namesrv_settings()),
        }

    def kv_config_path(self) -> str:
        """Returns the path of the name server's KV configuration."""
        return str(self.data / "namesrv" / "kvConfig.json")


class ClusterAddresses(NamedTuple):
    """The addresses of a cluster: name server, brokers by name, the control API's URL, and where
    RocketMQ 5's SDKs are served.
    """

    namesrv: str
    brokers: dict[str, str]
    control: str | None = None
    grpc: str | None = None


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


def broker_settings(options: ClusterOptions, index: int, namesrv: str) -> dict[str, object]:
    """Makes the settings of one broker, under the keys of its YAML file."""
    name = broker_name(index)
    port = options.broker_port_of(index)
    return {
        **options.common_settings(),
        "brokerName": name,
        "listenPort": port,
        "grpcServerPort": -1 if index else options.grpc_port,
        "namesrvAddr": namesrv,
        "storePathRootDir": str(options.data / name),
        "advertise": rules_of_gateway(options.gateway, port),
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
        grpc_port: int | None = options.grpc_port if options.grpc_port > 0 else None
        if options.brokers == 1:
            settings = broker_settings(options, 0, name_server.address)
            with in_options():
                broker = await stack.enter_async_context(
                    Broker(msgspec.convert(settings, BrokerConfig))
                )
            addresses[broker.config.broker_name] = broker.address
            grpc_port = broker.grpc_port
        else:
            started = await asyncio.gather(
                *(
                    _start_process(
                        stack, broker_settings(options, i, name_server.address), options.security
                    )
                    for i in range(options.brokers)
                ),
                return_exceptions=True,  # none may be under way when the others are stopped
            )
            for one in started:
                if isinstance(one, BaseException):
                    raise one
                addresses[one[0]] = one[1]
        yield ClusterAddresses(
            name_server.address, addresses, grpc=grpc_address(addresses, grpc_port)
        )


def grpc_address(brokers: dict[str, str], port: int | None) -> str | None:
    """Returns where RocketMQ 5's SDKs are served: at broker-a's host."""
    host = brokers[broker_name(0)].rpartition(":")[0]
    return None if port is None else f"{host}:{port}"


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


async def _start_process(
    stack: AsyncExitStack, settings: dict[str, object], security: Security | None
) -> tuple[str, str]:
    """Starts one broker in a process of its own; returns its name and address."""
    name = str(settings["brokerName"])
    given = ("--settings", json.dumps(settings))
    if security is not None:
        given = ("--config", str(security.settings_file(name, settings)))
    process = await _process(
        sys.executable, "-m", "pocketmq.cli.main", "broker", *given, "--stop-with-stdin"
    )
    stack.push_async_callback(_stop_process, process)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    word, _, address = line.strip().partition(f"{name}=")
    if not word.startswith("up") or not address:
        code = await process.wait()
        raise OperatingError(
            f"{name} did not start (exit code {code}): its reason is above. Of ports and "
            f"directories that are in use, --broker-port and --data or --memory choose others"
        )
    return name, address


async def _process(*command: str) -> asyncio.subprocess.Process:
    """Starts a process; a caller that is cancelled meanwhile leaves none behind."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await _stop_process(await starting)
        raise


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    await process.wait()
