"""The commands `pocketmq namesrv`, `broker`, `proxy` and `health`, each about one server."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from pocketmq.cli.options import VerboseOption
from pocketmq.cli.output import note, set_up_logging
from pocketmq.cli.servers.consoles.own_console import ConsoleWanted, wanted_by
from pocketmq.cli.servers.serving import Serving
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.protocol.errors import ConfigError, NoPermissionError, UsageError
from pocketmq.protocol.requests.nameserver import TopicListRequest
from pocketmq.protocol.requests.topics import RuntimeInfoRequest
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run, run_server, spare_what_stays
from pocketmq.runtime.settings import load_settings
from pocketmq.transport.pool import ConnectionPool
from pocketmq.transport.tls.settings import ClientTls, TlsMode, client_tls

if TYPE_CHECKING:
    from pocketmq.namesrv import NamesrvConfig

HEALTH_TIMEOUT_MS = 3000


def namesrv(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="YAML file of its settings.")
    ] = None,
    verbose: VerboseOption = 0,
) -> None:
    """Start one name server in the foreground."""
    from pocketmq.namesrv import NamesrvConfig

    set_up_logging(verbose)
    run_server(_namesrv(load_settings(config, NamesrvConfig) if config else NamesrvConfig()))


async def _namesrv(settings: object) -> None:
    from pocketmq.namesrv import NameServer, NamesrvConfig

    assert isinstance(settings, NamesrvConfig)
    wanted = wanted_by(settings)
    stop = stop_event()
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(Serving(stop, settings))
        server = await enter_unless_stopped(stack, NameServer(settings), stop)
        console = await _console(stack, stop, wanted, server.address, _tls_of_namesrv(settings))
        spare_what_stays()
        await serving.until_stopped(f"up namesrv={server.address}{console}")


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
    run_server(_broker(chosen, stop_with_stdin=stop_with_stdin))


async def _broker(settings: object, *, stop_with_stdin: bool) -> None:
    from pocketmq.broker import Broker, BrokerConfig

    assert isinstance(settings, BrokerConfig)
    wanted = wanted_by(settings)
    if wanted is not None and not settings.namesrv_addr:
        raise ConfigError("consolePort needs namesrvAddr: a console shows what a name server knows")
    stop = stop_event(on_stdin_end=stop_with_stdin)
    async with AsyncExitStack() as stack:
        server = Broker(settings)
        serving = Serving(stop, settings, lambda: server.obstacles)
        await stack.enter_async_context(serving)
        await enter_unless_stopped(stack, server, stop)
        console = await _console(stack, stop, wanted, settings.namesrv_addr, client_tls(settings))
        spare_what_stays()
        await serving.until_stopped(f"up {settings.broker_name}={server.address}{console}")


async def _console(
    stack: AsyncExitStack,
    stop: asyncio.Event,
    wanted: ConsoleWanted | None,
    namesrv: str,
    tls: ClientTls | None,
) -> str:
    """Starts the console that a server is to have; returns where it is, as the line says it."""
    if wanted is None:
        return ""
    server = await enter_unless_stopped(stack, wanted.server(namesrv, tls), stop)
    return f" console=http://{server.address}"


def _tls_of_namesrv(config: NamesrvConfig) -> ClientTls | None:
    """How the console of a name server speaks TLS to the cluster."""
    if config.tls_server_mode != TlsMode.ENFORCING:
        return None
    return ClientTls(trust_cert_path=config.tls_client_trust_cert_path)


def proxy(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="YAML file of its settings.")
    ] = None,
    verbose: VerboseOption = 0,
) -> None:
    """Start one proxy in the foreground: RocketMQ 5's gRPC in front of a cluster."""
    from pocketmq.proxy.standalone.config import ProxyConfig

    set_up_logging(verbose)
    run_server(_proxy(load_settings(config, ProxyConfig) if config else ProxyConfig()))


async def _proxy(settings: object) -> None:
    from pocketmq.proxy.standalone.config import ProxyConfig
    from pocketmq.proxy.standalone.server import Proxy

    assert isinstance(settings, ProxyConfig)
    stop = stop_event()
    async with AsyncExitStack() as stack:
        serving = await stack.enter_async_context(Serving(stop))
        server = await enter_unless_stopped(stack, Proxy(settings), stop)
        spare_what_stays()
        await serving.until_stopped(f"up grpc={server.address}")


def health(
    namesrv: Annotated[str | None, typer.Option(help="host:port of a name server.")] = None,
    broker: Annotated[str | None, typer.Option(help="host:port of a broker.")] = None,
    tls: Annotated[
        bool, typer.Option("--tls", help="Speak TLS; its certificate is not checked.")
    ] = False,
) -> None:
    """Ask whether a server answers: exit code 0 if it does, 1 if not."""
    if (namesrv is None) == (broker is None):
        raise UsageError("name one server: --namesrv HOST:PORT or --broker HOST:PORT")
    address = namesrv or broker or ""
    request: RequestHeader = TopicListRequest() if namesrv else RuntimeInfoRequest()
    run(_ask(address, request, ClientTls(verify=False) if tls else None))
    note(f"{address} answers")


async def _ask(address: str, request: RequestHeader, tls: ClientTls | None) -> None:
    pool = ConnectionPool(SystemClock(), connect_timeout_ms=HEALTH_TIMEOUT_MS, tls=tls)
    try:
        # A server that asks who one is (16) lives.
        with contextlib.suppress(NoPermissionError):
            await pool.ask(address, request, HEALTH_TIMEOUT_MS)
    finally:
        await pool.close()
