"""The command `pocketmq console`: a cluster over HTTP, for people and programs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, VerboseOption
from pocketmq.cli.output import set_up_logging
from pocketmq.cli.servers.controlled import EXTRA
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.process import run_server

if TYPE_CHECKING:
    from pocketmq.console.server import ConsoleOptions


def console(
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 lets the system choose.")] = 8280,
    host: Annotated[
        str, typer.Option(help="Address to listen on; other machines reach 0.0.0.0.")
    ] = "127.0.0.1",
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse everything that would change something.")
    ] = False,
    no_bodies: Annotated[
        bool, typer.Option("--no-bodies", help="Show no bodies of messages.")
    ] = False,
    base: Annotated[
        str, typer.Option(help="Path before all links, as /mq behind a proxy that takes it away.")
    ] = "",
    verbose: VerboseOption = 0,
) -> None:
    """Show a cluster, this project's or Apache's, in a browser, and as a JSON API."""
    try:
        from pocketmq.console.server import ConsoleOptions
    except ModuleNotFoundError as e:
        if e.name is None or e.name.partition(".")[0] not in EXTRA | {"jinja2"}:
            raise
        raise ConfigError(
            f"the console needs {e.name}, which is not installed: pip install 'pocketmq[console]'"
        ) from e

    set_up_logging(verbose)
    options = ConsoleOptions(
        host=host, port=port, read_only=read_only, no_bodies=no_bodies, base=base.rstrip("/")
    )
    run_server(_console(namesrv, options))


async def _console(namesrv: str, options: ConsoleOptions) -> None:
    from pocketmq.console.server import ConsoleServer

    stop = stop_event()
    async with AsyncExitStack() as stack:
        server = await enter_unless_stopped(stack, ConsoleServer(namesrv, options), stop)
        typer.echo(f"up console=http://{server.address}")
        await stop.wait()
