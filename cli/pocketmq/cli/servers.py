"""Commands that serve: `up`, `namesrv`, `broker`, and `health`, which asks whether one does."""

from __future__ import annotations

import json
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pocketmq.cli.cluster import ClusterAddresses, ClusterOptions, cluster
from pocketmq.cli.controlled import ControlOptions, controlled_cluster
from pocketmq.cli.gateway import default_gateway
from pocketmq.cli.options import VerboseOption
from pocketmq.cli.output import Format, note, set_up_logging
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.cli.snapshots import read_seed_file, sown
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.header import RequestHeader
from pocketmq.protocol.requests.nameserver import TopicListRequest
from pocketmq.protocol.requests.topics import RuntimeInfoRequest
from pocketmq.transport.clock import SystemClock
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.runtime import run
from pocketmq.transport.settings import load_settings

if TYPE_CHECKING:
    from pocketmq.client.seeds import Seed

HEALTH_TIMEOUT_MS = 3000

ENV = "POCKETMQ_UP_"
"""Options that the image sets are read from the environment (deploy/Dockerfile)."""


def up(
    brokers: Annotated[int, typer.Option(help="How many brokers: broker-a, broker-b, …")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(help="Directory of the data; pocketmq-data by default."),
    ] = None,
    memory: Annotated[
        bool, typer.Option("--memory", help="Keep the data in a temporary directory that goes.")
    ] = False,
    namesrv_port: Annotated[int, typer.Option(help="Port of the name server; 0: any.")] = 9876,
    broker_port: Annotated[
        int, typer.Option(help="Port of broker-a, the next ones 1000 apart; 0: any.")
    ] = 10911,
    host: Annotated[
        str, typer.Option(help="Address to listen on and to tell.", envvar=f"{ENV}HOST")
    ] = "127.0.0.1",
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="In a container whose ports have the same numbers on its host: clients that come "
            "through the gateway are told 127.0.0.1.",
        ),
    ] = False,
    seed: Annotated[
        Path | None,
        typer.Option(
            help="YAML file of topics, groups and messages to begin with; see docs/seed.md."
        ),
    ] = None,
    flush: Annotated[
        str, typer.Option(help="async: the system has it; sync: the disk has it.")
    ] = "async",
    control: Annotated[
        int | None,
        typer.Option(
            help="Serve the control API on this port; 0: any. See docs/testing.md.",
            envvar=f"{ENV}CONTROL",
        ),
    ] = None,
    control_host: Annotated[
        str, typer.Option(help="Address of the control API.", envvar=f"{ENV}CONTROL_HOST")
    ] = "127.0.0.1",
    clock: Annotated[
        str | None,
        typer.Option(
            help="With --control: offset goes on and can be advanced (default), virtual only moves "
            "when it is advanced, system is the machine's."
        ),
    ] = None,
    stop_with_stdin: Annotated[
        bool,
        typer.Option(
            "--stop-with-stdin",
            help="Stop when standard input ends, as with a test that starts it.",
        ),
    ] = False,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="How the line is printed that says it is up.")
    ] = Format.TABLE,
    verbose: VerboseOption = 0,
) -> None:
    """Start a whole cluster in the foreground; Ctrl-C or TERM stops it cleanly."""
    set_up_logging(verbose)
    if flush not in ("async", "sync"):
        raise ConfigError(f"--flush is {flush!r}: it must be async or sync")
    if clock is not None and control is None:
        raise ConfigError("--clock needs --control PORT, by which the clock is advanced")
    if published and not (namesrv_port and broker_port):
        raise ConfigError(
            "--published needs fixed ports: with port 0 nobody knows which ones to publish"
        )
    if memory and data is not None:
        raise ConfigError(f"--memory and --data {data} exclude each other: leave one of them out")
    options = ClusterOptions(
        brokers,
        data or Path("pocketmq-data"),
        namesrv_port,
        broker_port,
        host,
        flush == "sync",
        default_gateway() if published else "",
    )
    wanted = None if control is None else ControlOptions(control, control_host, clock or "offset")
    main = _up(
        options,
        wanted,
        read_seed_file(seed),
        memory=memory,
        stop_with_stdin=stop_with_stdin,
        output=output,
    )
    run(main)


async def _up(
    options: ClusterOptions,
    control: ControlOptions | None,
    seed: Seed | None,
    *,
    memory: bool,
    stop_with_stdin: bool,
    output: Format,
) -> None:
    stop = stop_event(on_stdin_end=stop_with_stdin)
    async with AsyncExitStack() as stack:
        if memory:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pocketmq-"))
            options = options._replace(data=Path(directory))
        started = (
            cluster(options)
            if control is None
            else controlled_cluster(options, control, stop.set, seed)
        )
        if seed is not None:
            started = sown(started, seed)
        addresses = await enter_unless_stopped(stack, started, stop)
        _say_up(addresses, options.data, output)
        await stop.wait()


def _say_up(addresses: ClusterAddresses, data: Path, output: Format) -> None:
    """Prints one line, for people or for programs."""
    if output is Format.JSON:
        typer.echo(json.dumps({"up": True, **addresses._asdict(), "data": str(data)}))
        return
    places = [f"{name}={address}" for name, address in addresses.brokers.items()]
    if addresses.control is not None:
        places.append(f"control={addresses.control}")
    typer.echo(f"up namesrv={addresses.namesrv} {' '.join(places)} data={data}")


def namesrv(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="YAML file of its settings.")
    ] = None,
    verbose: VerboseOption = 0,
) -> None:
    """Start one name server in the foreground."""
    from pocketmq.namesrv import NamesrvConfig

    set_up_logging(verbose)
    run(_namesrv(load_settings(config, NamesrvConfig) if config else NamesrvConfig()))


async def _namesrv(settings: object) -> None:
    from pocketmq.namesrv import NameServer, NamesrvConfig

    assert isinstance(settings, NamesrvConfig)
    stop = stop_event()
    async with AsyncExitStack() as stack:
        server = await enter_unless_stopped(stack, NameServer(settings), stop)
        typer.echo(f"up namesrv={server.address}")
        await stop.wait()


def broker(
    context: typer.Context,
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="YAML file of its settings.")
    ] = None,
    settings: Annotated[
        str | None, typer.Option(help="Settings as JSON, instead of a file.")
    ] = None,
    stop_with_stdin: Annotated[
        bool, typer.Option("--stop-with-stdin", help="Stop when standard input ends.")
    ] = False,
    verbose: VerboseOption = 0,
) -> None:
    """Start one broker in the foreground; or look at one that runs."""
    from pocketmq.broker import BrokerConfig

    if context.invoked_subcommand is not None:
        return
    set_up_logging(verbose)
    if config is not None and settings is not None:
        raise ConfigError("--config and --settings exclude each other")
    if config is not None:
        chosen = load_settings(config, BrokerConfig)
    else:
        try:
            chosen = msgspec.json.decode(settings or "{}", type=BrokerConfig)
        except msgspec.DecodeError as e:
            raise ConfigError(f"--settings: {e}") from e
    run(_broker(chosen, stop_with_stdin=stop_with_stdin))


async def _broker(settings: object, *, stop_with_stdin: bool) -> None:
    from pocketmq.broker import Broker, BrokerConfig

    assert isinstance(settings, BrokerConfig)
    stop = stop_event(on_stdin_end=stop_with_stdin)
    async with AsyncExitStack() as stack:
        server = await enter_unless_stopped(stack, Broker(settings), stop)
        typer.echo(f"up {settings.broker_name}={server.address}")
        await stop.wait()


def health(
    namesrv: Annotated[str | None, typer.Option(help="host:port of a name server.")] = None,
    broker: Annotated[str | None, typer.Option(help="host:port of a broker.")] = None,
) -> None:
    """Ask whether a server answers: exit code 0 if it does, 1 if not."""
    if (namesrv is None) == (broker is None):
        raise UsageError("name one server: --namesrv HOST:PORT or --broker HOST:PORT")
    address = namesrv or broker or ""
    request: RequestHeader = TopicListRequest() if namesrv else RuntimeInfoRequest()
    run(_ask(address, request))
    note(f"{address} answers")


async def _ask(address: str, request: RequestHeader) -> None:
    pool = ConnectionPool(SystemClock(), connect_timeout_ms=HEALTH_TIMEOUT_MS)
    try:
        await pool.ask(address, request, HEALTH_TIMEOUT_MS)
    finally:
        await pool.close()
