"""The command `pocketmq up`, which runs a whole cluster in the foreground."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.auth.exposure import check_exposure
from pocketmq.cli.options import VerboseOption
from pocketmq.cli.output import Format, note, set_up_logging
from pocketmq.cli.servers.cluster import (
    GRPC_PORT,
    ClusterAddresses,
    ClusterOptions,
    broker_count,
    cluster,
)
from pocketmq.cli.servers.consoles.own_console import ConsoleWanted
from pocketmq.cli.servers.controlled import ControlOptions, controlled_cluster
from pocketmq.cli.servers.gateway import default_gateway
from pocketmq.cli.servers.secure import keep_profile, reached_as, words_for_clients
from pocketmq.cli.servers.secure import secure as make_secure
from pocketmq.cli.servers.serving import Serving
from pocketmq.cli.servers.snapshots import read_seed_file, sown
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.process import run_server, spare_what_stays

if TYPE_CHECKING:
    from pocketmq.client.copying.seeds import Seed

ENV = "POCKETMQ_UP_"
"""Options that the image sets are read from the environment (deploy/Dockerfile)."""


class TlsModeChoice(StrEnum):
    """What a secure cluster takes."""

    ENFORCING = "enforcing"
    PERMISSIVE = "permissive"


BrokersOption = Annotated[
    str,
    typer.Option(
        help="How many brokers: broker-a, broker-b, …; auto: one for each core.", metavar="NUMBER"
    ),
]
ReplicasOption = Annotated[
    int,
    typer.Option(
        help="How many members each broker set has; 1: brokers of their own. Members are processes "
        "whose ports are 10 apart; see docs/replication.md.",
        metavar="NUMBER",
    ),
]
DataOption = Annotated[
    Path | None, typer.Option(help="Directory of the data; pocketmq-data by default.")
]
MemoryOption = Annotated[
    bool, typer.Option("--memory", help="Keep the data in a temporary directory that goes.")
]
NamesrvPortOption = Annotated[int, typer.Option(help="Port of the name server; 0: any.")]
BrokerPortOption = Annotated[
    int, typer.Option(help="Port of broker-a, the next ones 1000 apart; 0: any.")
]
GrpcPortOption = Annotated[
    int | None,
    typer.Option(
        help="Port for RocketMQ 5's gRPC SDKs; 0: any, -1: none. By default 8081 if it is "
        "free, and any with --broker-port 0.",
        show_default=False,
    ),
]
HostOption = Annotated[
    str, typer.Option(help="Address to listen on and to tell.", envvar=f"{ENV}HOST")
]
PublishedOption = Annotated[
    bool,
    typer.Option(
        "--published",
        help="In a container whose ports have the same numbers on its host: clients that come "
        "through the gateway are told 127.0.0.1.",
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure",
        help="Be open to everybody who reaches --host or --control-host, on purpose.",
        envvar=f"{ENV}INSECURE",
    ),
]
SecureOption = Annotated[
    bool,
    typer.Option(
        "--secure",
        help="Take signed requests only: makes an admin user and a profile that commands use.",
        envvar=f"{ENV}SECURE",
    ),
]
TlsHostOption = Annotated[
    list[str] | None,
    typer.Option(
        help="With --secure: a further name or address of this machine for its certificate; may be "
        "repeated.",
        envvar=f"{ENV}TLS_HOST",
    ),
]
TlsModeOption = Annotated[
    TlsModeChoice,
    typer.Option(
        help="With --secure: permissive takes plain connections, too, of clients without TLS.",
        envvar=f"{ENV}TLS_MODE",
    ),
]
SeedOption = Annotated[
    Path | None,
    typer.Option(help="YAML file of topics, groups and messages to begin with; see docs/seed.md."),
]
FlushOption = Annotated[str, typer.Option(help="async: the system has it; sync: the disk has it.")]
ControlOption = Annotated[
    int | None,
    typer.Option(
        help="Serve the control API on this port; 0: any. See docs/testing.md.",
        envvar=f"{ENV}CONTROL",
    ),
]
ControlHostOption = Annotated[
    str, typer.Option(help="Address of the control API.", envvar=f"{ENV}CONTROL_HOST")
]
ConsoleOption = Annotated[
    int | None,
    typer.Option(
        help="Serve the console on this port, 8280 if none is given; 0: any. See docs/api.md.",
        metavar="[PORT]",
        envvar=f"{ENV}CONSOLE",
        show_default=False,
    ),
]
ConsoleHostOption = Annotated[
    str, typer.Option(help="Address of the console.", envvar=f"{ENV}CONSOLE_HOST")
]
ConsoleReadOnlyOption = Annotated[
    bool,
    typer.Option("--console-read-only", help="The console refuses to change anything."),
]
ConsoleNoBodiesOption = Annotated[
    bool, typer.Option("--console-no-bodies", help="The console shows no bodies of messages.")
]
ConsolePathOption = Annotated[
    str,
    typer.Option(help="Path before all links, as /mq behind a proxy that takes it away."),
]
ConsoleOriginOption = Annotated[
    str,
    typer.Option(help="Where browsers see the console through a proxy: https://mq.example.org"),
]
ClockOption = Annotated[
    str | None,
    typer.Option(
        help="With --control: offset goes on and can be advanced (default), virtual only moves "
        "when it is advanced, system is the machine's."
    ),
]
StopWithStdinOption = Annotated[
    bool,
    typer.Option(
        "--stop-with-stdin",
        help="Stop when standard input ends, as with a test that starts it.",
    ),
]
LineOption = Annotated[
    Format, typer.Option("-o", "--output", help="How the line is printed that says it is up.")
]


def up(
    brokers: BrokersOption = "1",
    replicas: ReplicasOption = 1,
    data: DataOption = None,
    memory: MemoryOption = False,
    namesrv_port: NamesrvPortOption = 9876,
    broker_port: BrokerPortOption = 10911,
    grpc_port: GrpcPortOption = None,
    host: HostOption = "127.0.0.1",
    published: PublishedOption = False,
    secure: SecureOption = False,
    tls_host: TlsHostOption = None,
    tls_mode: TlsModeOption = TlsModeChoice.ENFORCING,
    insecure: InsecureOption = False,
    seed: SeedOption = None,
    flush: FlushOption = "async",
    control: ControlOption = None,
    control_host: ControlHostOption = "127.0.0.1",
    clock: ClockOption = None,
    console: ConsoleOption = None,
    console_host: ConsoleHostOption = "127.0.0.1",
    console_read_only: ConsoleReadOnlyOption = False,
    console_no_bodies: ConsoleNoBodiesOption = False,
    console_path: ConsolePathOption = "",
    console_origin: ConsoleOriginOption = "",
    stop_with_stdin: StopWithStdinOption = False,
    output: LineOption = Format.TABLE,
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
    if secure and control is not None:
        raise ConfigError(
            "--secure and --control exclude each other: the control API asks nobody who he is"
        )
    data = data or Path("pocketmq-data")
    options = ClusterOptions(
        broker_count(brokers, None if memory else data),
        data,
        namesrv_port,
        broker_port,
        host,
        flush == "sync",
        default_gateway() if published else "",
        insecure,
        grpc_port=_grpc_port(grpc_port, host, broker_port),
        replicas=replicas,
    )
    check_exposure("the cluster", host, is_guarded=secure, insecure=insecure)
    if control is not None:
        check_exposure("the control API", control_host, is_guarded=False, insecure=insecure)
    shown: ConsoleWanted | None = None
    if console is not None:
        shown = ConsoleWanted(
            console,
            console_host,
            console_read_only,
            console_no_bodies,
            console_path,
            origin=console_origin,
        )
        shown.check(is_guarded=secure, insecure=insecure)
    wanted = None if control is None else ControlOptions(control, control_host, clock or "offset")
    main = _up(
        options,
        wanted,
        shown,
        read_seed_file(seed),
        certified=reached_as(host, tls_host or ()) if secure else None,
        tls_mode=tls_mode,
        memory=memory,
        stop_with_stdin=stop_with_stdin,
        output=output,
    )
    run_server(main)


def _grpc_port(wanted: int | None, host: str, broker_port: int) -> int:
    """The port for gRPC: as wanted, or the usual one unless somebody else has it."""
    if wanted is not None:
        return wanted
    if not broker_port:
        return 0
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, GRPC_PORT))
        except OSError:
            note(f"port {GRPC_PORT} is in use, so that there is no gRPC endpoint for RocketMQ 5's "
                 f"SDKs: choose another port with --grpc-port")  # fmt: skip
            return -1
    return GRPC_PORT


async def _up(
    options: ClusterOptions,
    control: ControlOptions | None,
    console: ConsoleWanted | None,
    seed: Seed | None,
    *,
    certified: list[str] | None,
    tls_mode: str,
    memory: bool,
    stop_with_stdin: bool,
    output: Format,
) -> None:
    stop = stop_event(on_stdin_end=stop_with_stdin)
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(Serving(stop))
        if memory:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="pocketmq-"))
            options = options._replace(data=Path(directory))
        if certified is not None:
            options = _secured(options, certified, tls_mode)
        started = (
            cluster(options)
            if control is None
            else controlled_cluster(options, control, console, stop.set, seed)
        )
        if seed is not None:
            started = sown(started, seed)
        addresses = await enter_unless_stopped(stack, started, stop)
        if console is not None and control is None:
            tls = None if options.security is None else options.security.client_tls()
            server = console.server(addresses.namesrv, tls)
            await enter_unless_stopped(stack, server, stop)
            addresses = addresses._replace(console=f"http://{server.address}")
        spare_what_stays()
        if options.security is not None:
            option = keep_profile(options.security, addresses.namesrv)
            for line in words_for_clients(options.security, addresses.namesrv, option):
                note(line)
        _say_up(addresses, options.data, output)
        await serving.until_stopped("")


def _secured(options: ClusterOptions, hosts: Sequence[str], tls_mode: str) -> ClusterOptions:
    """Adds certificates and credentials, and lets this process, too, ask the cluster with them."""
    from pocketmq.client.credentials import use_credentials
    from pocketmq.client.tls import use_tls

    security = make_secure(options.data / "secure", hosts, tls_mode=tls_mode)
    use_credentials(security.admin)
    use_tls(security.client_tls())
    return options._replace(security=security)


def _say_up(addresses: ClusterAddresses, data: Path, output: Format) -> None:
    """Prints the line that begins with `up`, or JSON for programs."""
    if output is Format.JSON:
        typer.echo(json.dumps({"up": True, **addresses._asdict(), "data": str(data)}))
        return
    places = [f"{name}={address}" for name, address in addresses.brokers.items()]
    if addresses.grpc is not None:
        places.append(f"grpc={addresses.grpc}")
    if addresses.control is not None:
        places.append(f"control={addresses.control}")
    if addresses.console is not None:
        places.append(f"console={addresses.console}")
    typer.echo(f"up namesrv={addresses.namesrv} {' '.join(places)} data={data}")
