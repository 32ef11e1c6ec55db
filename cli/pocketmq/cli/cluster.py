"""A whole cluster in the foreground: a name server and N brokers.

One broker shares the process of the name server. Several have a process each, so that each has a
core of its own; they end with this process, however it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import ConfigError, OperatingError

BROKERS_MAX = 26
"""Brokers are named broker-a to broker-z."""

START_TIMEOUT_S = 30.0
PORT_STEP = 1000


class ClusterOptions(NamedTuple):
    """What cluster is wanted.

    Attributes:
        brokers: how many.
        data: directory of the data; each broker has its own below it.
        namesrv_port, broker_port: 0 lets the system choose; broker i listens on
            `broker_port` + 1000·i.
        host: address that is listened on and told to clients.
        sync_flush: acknowledge only what the disk has.
    """

    brokers: int
    data: Path
    namesrv_port: int
    broker_port: int
    host: str
    sync_flush: bool


class ClusterAddresses(NamedTuple):
    """Where a cluster answers: the name server, and the brokers by name."""

    namesrv: str
    brokers: dict[str, str]


def broker_settings(options: ClusterOptions, index: int, namesrv: str) -> dict[str, object]:
    """The settings of one broker, under the keys of its YAML file."""
    name = f"broker-{chr(ord('a') + index)}"
    port = options.broker_port + PORT_STEP * index if options.broker_port else 0
    return {
        "brokerName": name,
        "listenPort": port,
        "bindAddress": options.host,
        "brokerIP1": "" if options.host in ("0.0.0.0", "::") else options.host,  # noqa: S104
        "namesrvAddr": namesrv,
        "storePathRootDir": str(options.data / name),
        "flushDiskType": "SYNC_FLUSH" if options.sync_flush else "ASYNC_FLUSH",
    }


@asynccontextmanager
async def cluster(options: ClusterOptions) -> AsyncIterator[ClusterAddresses]:
    """Starts a cluster; when the context is entered, it answers.

    Raises:
        ConfigError: more brokers than letters, or an address is in use.
        OperatingError: a broker does not start.
    """
    import msgspec

    if not 1 <= options.brokers <= BROKERS_MAX:
        raise ConfigError(f"--brokers is {options.brokers}: it must be between 1 and {BROKERS_MAX}")
    options.data.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        name_server = await stack.enter_async_context(
            NameServer(
                NamesrvConfig(
                    listen_port=options.namesrv_port,
                    bind_address=options.host,
                    kv_config_path=str(options.data / "namesrv" / "kvConfig.json"),
                )
            )
        )
        addresses = {}
        if options.brokers == 1:
            settings = broker_settings(options, 0, name_server.address)
            broker = await stack.enter_async_context(
                Broker(msgspec.convert(settings, BrokerConfig))
            )
            addresses[broker.config.broker_name] = broker.address
        else:
            started = await asyncio.gather(
                *(
                    _start_process(stack, broker_settings(options, i, name_server.address))
                    for i in range(options.brokers)
                )
            )
            addresses.update(started)
        yield ClusterAddresses(name_server.address, addresses)


async def _start_process(stack: AsyncExitStack, settings: dict[str, object]) -> tuple[str, str]:
    """Starts one broker in a process of its own; returns its name and address."""
    name = str(settings["brokerName"])
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pocketmq.cli.main",
        "broker",
        "--settings",
        json.dumps(settings),
        "--stop-with-stdin",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    stack.push_async_callback(_stop_process, process)
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    word, _, address = line.strip().partition(f"{name}=")
    if not word.startswith("up") or not address:
        code = await process.wait()
        raise OperatingError(f"{name} did not start (exit code {code}): its reason is above")
    return name, address


async def _stop_process(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    await process.wait()
