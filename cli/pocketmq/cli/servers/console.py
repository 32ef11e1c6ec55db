"""The command `pocketmq console`: a cluster over HTTP, for people and programs."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, VerboseOption
from pocketmq.cli.output import set_up_logging
from pocketmq.cli.servers.own_console import ConsoleWanted, load_console
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.runtime.process import run_server


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
    path: Annotated[
        str, typer.Option(help="Path before all links, as /mq behind a proxy that takes it away.")
    ] = "",
    forwarded_prefix: Annotated[
        bool,
        typer.Option(
            "--forwarded-prefix",
            help="Take that path from the proxy's header X-Forwarded-Prefix; only behind a proxy.",
        ),
    ] = False,
    origin: Annotated[
        str,
        typer.Option(help="Where browsers see it through a proxy, as https://mq.example.org"),
    ] = "",
    verbose: VerboseOption = 0,
) -> None:
    """Show a cluster, this project's or Apache's, in a browser, and as a JSON API."""
    set_up_logging(verbose)
    wanted = ConsoleWanted(
        port,
        host,
        read_only,
        no_bodies,
        path,
        forwarded_prefix,
        origin,
        "the console",
        "choose another --port PORT, or 0, and the system chooses a free one",
    )
    load_console(wanted.needed_by)
    run_server(_console(namesrv, wanted))


async def _console(namesrv: str, wanted: ConsoleWanted) -> None:
    stop = stop_event()
    async with AsyncExitStack() as stack:
        server = await enter_unless_stopped(stack, wanted.server(namesrv), stop)
        typer.echo(f"up console=http://{server.address}")
        await stop.wait()
