"""The commands `pocketmq user …`: create, list, show, change, delete and copy users."""

from __future__ import annotations

import secrets
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.access.rows import POLICY_COLUMNS, USER_COLUMNS, policy_rows, user_rows
from pocketmq.cli.administration.topics import BrokerOption, ClusterOption
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, note, print_json, print_rows
from pocketmq.cli.secret_input import read_secret
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.signing import MASK
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.protocol.bodies.users import UserInfo

app = typer.Typer(
    help="Create, list, look at, change, delete and copy users.", no_args_is_help=True
)

SECRET_SIZE = 24
"""Random bytes of a made password."""

UserArgument = Annotated[str, typer.Argument(help="The user's name, its access key.")]
FromOption = Annotated[str, typer.Option("--from", help="The broker at HOST:PORT that has it.")]
ToOption = Annotated[str, typer.Option("--to", help="The broker at HOST:PORT that gets it.")]


class TypeChoice(StrEnum):
    """What a user may do."""

    NORMAL = "normal"
    SUPER = "super"


@app.command()
def create(
    name: UserArgument,
    super_user: Annotated[
        bool, typer.Option("--super", help="May do everything, other users' rights too.")
    ] = False,
    generate: Annotated[
        bool, typer.Option("--generate", help="Make the password, and print it once.")
    ] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Create a user; its password is asked for, or read from standard input."""
    from pocketmq.client import Admin

    password = secrets.token_urlsafe(SECRET_SIZE) if generate else _password()
    user_type = (TypeChoice.SUPER if super_user else TypeChoice.NORMAL).value

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.create_user(
                name, password, user_type=user_type, cluster=cluster, broker_addr=broker
            )

    note(f"user {name} is on {', '.join(run(main()))}")
    if generate:
        typer.echo(password)


@app.command()
def update(
    name: UserArgument,
    new_password: Annotated[
        bool, typer.Option("--password", help="Ask for a new password, or read it from a pipe.")
    ] = False,
    user_type: Annotated[
        TypeChoice | None, typer.Option("--type", help="What the user may do.")
    ] = None,
    enable: Annotated[
        bool | None,
        typer.Option("--enable/--disable", help="Take its requests, or close its connections."),
    ] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Change a user, from its next request on."""
    from pocketmq.client import Admin

    if not new_password and user_type is None and enable is None:
        raise UsageError("nothing is to be changed: give --password, --type, --enable or --disable")
    password = _password() if new_password else None
    status = None if enable is None else "enable" if enable else "disable"

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.update_user(
                name,
                password=password,
                user_type=user_type and user_type.value,
                user_status=status,
                cluster=cluster,
                broker_addr=broker,
            )

    note(f"user {name} is changed on {', '.join(run(main()))}")


@app.command()
def delete(
    name: UserArgument,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Delete a user and its policies."""
    from pocketmq.client import Admin

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            await admin.user(name, cluster=cluster, broker_addr=broker)
            return await admin.delete_user(name, cluster=cluster, broker_addr=broker)

    note(f"user {name} is deleted on {', '.join(run(main()))}")


@app.command("list")
def list_users(
    name_part: Annotated[str, typer.Option("--filter", help="Only names with this text.")] = "",
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List users; one that is not the same on all brokers has several rows."""
    from pocketmq.client import Admin

    async def main() -> dict[str, list[UserInfo]]:
        async with Admin(namesrv) as admin:
            return await admin.users(name_part, cluster=cluster, broker_addr=broker)

    print_rows(user_rows(run(main())), USER_COLUMNS, output)


@app.command()
def show(
    name: UserArgument,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a user and its policies."""
    from pocketmq.client import Admin

    async def main() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        async with Admin(namesrv) as admin:
            found = await admin.user(name, cluster=cluster, broker_addr=broker)
            acls = {
                address: [acl]
                for address in found
                for acl in (await admin.acl(name, broker_addr=address)).values()
            }
            return user_rows({address: [info] for address, info in found.items()}), policy_rows(
                acls
            )

    users, policies = run(main())
    if output is Format.JSON:
        print_json({"user": name, "versions": users, "policies": policies})
        return
    print_rows(users, USER_COLUMNS, output, "User")
    print_rows(policies, POLICY_COLUMNS, output, "Policies")


@app.command()
def copy(
    name: UserArgument,
    source: FromOption,
    target: ToOption,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Copy a user from one broker to another; its policies are copied by `pocketmq acl copy`.

    The first broker must show passwords (authenticationPasswordVisible).
    """
    from pocketmq.client import Admin

    async def main() -> None:
        async with Admin(namesrv) as admin:
            (info,) = (await admin.user(name, broker_addr=source)).values()
            password = info.password
            if password is None or password == MASK:
                raise UsageError(
                    f"{source} does not show passwords: set authenticationPasswordVisible there, "
                    f"or create the user with `pocketmq user create {name} --broker {target}`"
                )
            known = await admin.users(name, broker_addr=target)
            if name not in {user.username for user in known[target]}:
                await admin.create_user(
                    name, password, user_type=info.user_type or "", broker_addr=target
                )
            await admin.update_user(
                name,
                password=password,
                user_type=info.user_type,
                user_status=info.user_status,
                broker_addr=target,
            )

    run(main())
    note(f"user {name} of {source} is on {target}")


def _password() -> str:
    return read_secret("Password", "a user needs a password: type it, pipe it in, or --generate it")
