"""The command `pocketmq console`: a cluster over HTTP, for people and programs."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, VerboseOption
from pocketmq.cli.output import set_up_logging
from pocketmq.cli.servers.consoles.own_console import ConsoleWanted, load_console, schemas_wanted
from pocketmq.cli.signals import enter_unless_stopped, stop_event
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.messages.hosts import join_address
from pocketmq.runtime.process import run_server

if TYPE_CHECKING:
    from pocketmq.console.decoding.schema_decoder import SchemaOptions
    from pocketmq.console.login.settings import LoginOptions


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
    oidc_issuer: Annotated[
        str,
        typer.Option(help="Have people log in by this OpenID Connect provider, by its address."),
    ] = "",
    oidc_client_id: Annotated[
        str, typer.Option(help="The name of the console at the provider.")
    ] = "",
    oidc_client_secret_file: Annotated[
        Path | None,
        typer.Option(help="File with the secret; or set POCKETMQ_OIDC_CLIENT_SECRET."),
    ] = None,
    oidc_users: Annotated[
        Path | None, typer.Option(help="File that says which persons are which users.")
    ] = None,
    oidc_scope: Annotated[
        str, typer.Option(help="What the provider is asked for.")
    ] = "openid profile email",
    schema_registry: Annotated[
        str,
        typer.Option(
            help="Address of the schema registry for bodies in Avro and Protobuf; or set "
            "POCKETMQ_SCHEMA_REGISTRY."
        ),
    ] = "",
    schema: Annotated[
        list[str] | None,
        typer.Option(
            help="TOPIC=FILE (.avsc or .proto:MESSAGE): the schema of a topic's bodies; repeatable."
        ),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(
            help="Port on which Prometheus scrapes the console; 0 lets the system choose.",
            show_default="none",
        ),
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address that it is scraped on.")] = "127.0.0.1",
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
        metrics_port,
        metrics_host,
    )
    load_console(wanted.needed_by)
    login = None
    if oidc_issuer:
        login = _login(oidc_issuer, oidc_client_id, oidc_client_secret_file, oidc_users, oidc_scope)
    schemas = schemas_wanted(schema_registry, schema or ())
    run_server(_console(namesrv, wanted, login, schemas))


def _login(
    issuer: str, client_id: str, secret_file: Path | None, users: Path | None, scope: str
) -> LoginOptions:
    """Reads how people log in.

    Raises:
        ConfigError: something is missing, or cannot be read.
    """
    try:
        import pocketmq.console.login.login  # noqa: F401  (what it needs is an extra)
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"logins need {e.name}, which is not installed: pip install 'pocketmq[console,oidc]'"
        ) from e
    from pocketmq.console.login.settings import (
        SECRET_VARIABLE,
        LoginOptions,
        check_issuer,
        read_secret,
        read_users,
    )

    secret = (
        os.environ.get(SECRET_VARIABLE, "") if secret_file is None else read_secret(secret_file)
    )
    if not client_id or not secret or users is None:
        raise ConfigError(
            f"--oidc-issuer needs --oidc-client-id, --oidc-users, and --oidc-client-secret-file or "
            f"{SECRET_VARIABLE}"
        )
    return LoginOptions(check_issuer(issuer), client_id, secret, read_users(users), scope)


async def _console(
    namesrv: str,
    wanted: ConsoleWanted,
    login: LoginOptions | None,
    schemas: SchemaOptions | None,
) -> None:
    stop = stop_event()
    async with AsyncExitStack() as stack:
        server = await enter_unless_stopped(
            stack, wanted.server(namesrv, login=login, schemas=schemas), stop
        )
        scraped = server.metrics_port
        at = (
            ""
            if scraped is None
            else f" metrics=http://{join_address(wanted.metrics_host, scraped)}"
        )
        typer.echo(f"up console=http://{server.address}{at}")
        await stop.wait()
