"""The commands `pocketmq acl …`: create, list, show, delete, copy, explain and migrate policies."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.access.rows import POLICY_COLUMNS, policy_rows
from pocketmq.cli.access.users import FromOption, ToOption, UserArgument
from pocketmq.cli.administration.topics import BrokerOption, ClusterOption
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, note, print_rows
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.users import AclInfo, UserInfo

app = typer.Typer(
    help="Say who may do what: create, list, look at, delete, copy and explain policies.",
    no_args_is_help=True,
)

ResourceOption = Annotated[
    list[str],
    typer.Option(
        "-r",
        "--resource",
        help="Topic:orders, Group:shop*, Cluster:*, or * for all; may be repeated.",
    ),
]
ActionOption = Annotated[
    list[str],
    typer.Option(
        "-a",
        "--action",
        help="Pub, Sub, Create, Update, Delete, Get, List or All; may be repeated.",
    ),
]
DenyOption = Annotated[bool, typer.Option("--deny", help="Deny instead of allow.")]
IpOption = Annotated[
    list[str] | None,
    typer.Option("--ip", help="Only from this address or network; may be repeated."),
]
DefaultOption = Annotated[
    bool, typer.Option("--default", help="An entry that counts only where no other fits.")
]


@app.command()
def create(
    user: UserArgument,
    resource: ResourceOption,
    action: ActionOption,
    deny: DenyOption = False,
    ip: IpOption = None,
    default: DefaultOption = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Add entries to a user's policies; one of the same resource is replaced."""
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.users import PolicyEntryInfo

    entries = [
        PolicyEntryInfo(
            resource=text,
            actions=[name for part in action for name in part.split(",")],
            source_ips=ip or None,
            decision="Deny" if deny else "Allow",
        )
        for text in resource
    ]

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.create_acl(
                user, entries, policy_type=_type(default), cluster=cluster, broker_addr=broker
            )

    note(f"the policies of user {user} are changed on {', '.join(run(main()))}")


app.command("update", help="Do what `create` does.")(create)


@app.command()
def delete(
    user: UserArgument,
    resource: Annotated[
        str | None, typer.Option("-r", "--resource", help="Only the entry of this resource.")
    ] = None,
    default: DefaultOption = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Delete the entry of a resource from a user's policies, or all of them."""
    from pocketmq.client import Admin

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.delete_acl(
                user, resource, policy_type=_type(default), cluster=cluster, broker_addr=broker
            )

    note(f"policies of user {user} are deleted on {', '.join(run(main()))}")


@app.command("list")
def list_policies(
    user: Annotated[str, typer.Option("--user", help="Only users with this text.")] = "",
    resource: Annotated[
        str, typer.Option("-r", "--resource", help="Only resources with this text.")
    ] = "",
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List policies; an entry that is not the same on all brokers has several rows."""
    from pocketmq.client import Admin

    async def main() -> dict[str, list[AclInfo]]:
        async with Admin(namesrv) as admin:
            return await admin.acls(user, resource, cluster=cluster, broker_addr=broker)

    print_rows(policy_rows(run(main())), POLICY_COLUMNS, output)


@app.command()
def show(
    user: UserArgument,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a user's policies."""
    from pocketmq.client import Admin

    async def main() -> dict[str, list[AclInfo]]:
        async with Admin(namesrv) as admin:
            found = await admin.acl(user, cluster=cluster, broker_addr=broker)
            return {address: [acl] for address, acl in found.items()}

    print_rows(policy_rows(run(main())), POLICY_COLUMNS, output)


@app.command()
def copy(
    user: UserArgument,
    source: FromOption,
    target: ToOption,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Copy a user's policies from one broker to another; entries of other resources stay."""
    from pocketmq.client import Admin

    async def main() -> int:
        async with Admin(namesrv) as admin:
            return await _put(admin, user, (await admin.acl(user, broker_addr=source))[source],
                              cluster=None, broker=target)  # fmt: skip

    note(f"{run(main())} entries of user {user} are copied from {source} to {target}")


@app.command()
def explain(
    user: UserArgument,
    action: Annotated[str, typer.Argument(help="Pub, Sub, Create, Update, Delete, Get or List.")],
    resource: Annotated[str, typer.Argument(help="Such as Topic:orders or Group:shop.")],
    ip: Annotated[str, typer.Option("--ip", help="The address that asks.")] = "127.0.0.1",
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say whether a user may do something, which entry decides, and why; exit code 1 if not."""
    from pocketmq.client import Admin

    async def main() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            users = await admin.user(user, cluster=cluster, broker_addr=broker)
            rows = []
            for address, info in users.items():
                acl = (await admin.acl(user, broker_addr=address))[address]
                rows.append({"broker": address, **_verdict(info, acl, action, resource, ip)})
            return rows

    rows = run(main())
    print_rows(rows, ("broker", "allowed", "entry", "reason"), output)
    if not all(row["allowed"] == "yes" for row in rows):
        raise typer.Exit(EXIT_FAILED)


def _verdict(info: UserInfo, acl: AclInfo, action: str, resource: str, ip: str) -> dict[str, Any]:
    from pocketmq.auth.rights.verdicts import explained

    verdict = explained(info, acl, action, resource, ip)
    allowed = "yes" if verdict.is_allowed else "no"
    return {"allowed": allowed, "entry": verdict.entry, "reason": verdict.reason}


@app.command()
def migrate(
    path: Annotated[
        Path, typer.Argument(help="RocketMQ 4's plain_acl.yml, or a folder of such files.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be created.")
    ] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Turn accounts of RocketMQ 4 (ACL 1.0) into users and policies; existing users stay."""
    from pocketmq.auth.rights.acl_texts import info_of
    from pocketmq.auth.rights.plain_acl import read_plain_acl
    from pocketmq.client import Admin

    migrated = read_plain_acl(path)

    async def main() -> list[str]:
        made = []
        async with Admin(namesrv) as admin:
            lists = (await admin.users(cluster=cluster, broker_addr=broker)).values()
            known = {info.username for infos in lists for info in infos}
            for user, acl in migrated.users:
                if user.username in known:
                    note(f"user {user.username} exists already and stays as it is")
                    continue
                await admin.create_user(
                    user.username,
                    user.password,
                    user_type=user.user_type.value,
                    cluster=cluster,
                    broker_addr=broker,
                )
                await _put(admin, user.username, info_of(acl), cluster=cluster, broker=broker)
                made.append(user.username)
        return made

    names = [user.username for user, _ in migrated.users] if dry_run else run(main())
    acls = [info_of(acl) for user, acl in migrated.users if user.username in names]
    supers = [user.username for user, _ in migrated.users if user.user_type.value == "Super"]
    rows = policy_rows({"": acls})
    print_rows(rows, POLICY_COLUMNS[:-1], output)
    for text in migrated.left_out:
        note(f"left out: {text}")
    verb = "would be created" if dry_run else "are created"
    note(f"{len(names)} users {verb}: {', '.join(names) or 'none'}; Super users among them: "
         f"{', '.join(name for name in supers if name in names) or 'none'}")  # fmt: skip


async def _put(
    admin: Admin, user: str, acl: AclInfo, *, cluster: str | None, broker: str | None
) -> int:
    """Enters policies; returns the number of entries."""
    count = 0
    for policy in acl.policies:
        await admin.create_acl(
            user,
            policy.entries,
            policy_type=policy.policy_type or "Custom",
            cluster=cluster,
            broker_addr=broker,
        )
        count += len(policy.entries)
    return count


def _type(is_default: bool) -> str:
    return "Default" if is_default else "Custom"
