"""The commands `pocketmq group …`: create, list, show, change and delete consumer groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.administration.topics import BrokerOption, ClusterOption
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, name_value_pairs
from pocketmq.cli.output import Format, FormatOption, note, print_json, print_rows
from pocketmq.cli.watching import WatchOption, show_listing
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.clients import ConsumerConnection, GroupConfig

app = typer.Typer(
    help="Create, list, look at, change, reset and delete consumer groups.", no_args_is_help=True
)

GroupArgument = Annotated[str, typer.Argument(help="The group's name.")]
ConsumeOption = Annotated[
    bool | None, typer.Option("--consume/--no-consume", help="Whether its pulls are answered.")
]
BroadcastOption = Annotated[
    bool | None,
    typer.Option("--broadcast/--no-broadcast", help="Whether members may broadcast."),
]
NotifyOption = Annotated[
    bool | None,
    typer.Option("--notify/--no-notify", help="Tell members when one comes or goes."),
]
RetryQueuesOption = Annotated[
    int | None, typer.Option(help="Queues of its retry topic; 0 for no retries.")
]
RetryTimesOption = Annotated[
    int | None, typer.Option(help="Retries before a message goes to the dead letters.")
]
AttributeOption = Annotated[
    list[str] | None, typer.Option(help="+name=value or -name; may be repeated.")
]


def _attributes(texts: list[str] | None) -> dict[str, str] | None:
    if texts is None:
        return None
    removed = {text: "" for text in texts if text.startswith("-")}
    return name_value_pairs("--attribute", [t for t in texts if t not in removed]) | removed


@app.command()
def create(
    group: GroupArgument,
    consume: ConsumeOption = None,
    broadcast: BroadcastOption = None,
    notify: NotifyOption = None,
    retry_queues: RetryQueuesOption = None,
    retry_times: RetryTimesOption = None,
    attribute: AttributeOption = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Create a group, or set all its settings anew."""
    from pocketmq.client import Admin
    from pocketmq.protocol.bodies.clients import GroupConfig

    config = GroupConfig(group_name=group, attributes=_attributes(attribute) or {})
    if consume is not None:
        config.consume_enable = consume
    if broadcast is not None:
        config.consume_broadcast_enable = broadcast
    if notify is not None:
        config.notify_consumer_ids_changed_enable = notify
    if retry_queues is not None:
        config.retry_queue_nums = retry_queues
    if retry_times is not None:
        config.retry_max_times = retry_times

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.create_group(config, cluster=cluster, broker_addr=broker)

    note(f"group {group} is on {', '.join(run(main()))}")


@app.command()
def update(
    group: GroupArgument,
    consume: ConsumeOption = None,
    broadcast: BroadcastOption = None,
    notify: NotifyOption = None,
    retry_queues: RetryQueuesOption = None,
    retry_times: RetryTimesOption = None,
    attribute: AttributeOption = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Change what is given of a group's settings."""
    from pocketmq.client import Admin

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.update_group(
                group,
                consume_enable=consume,
                consume_broadcast_enable=broadcast,
                notify_consumer_ids_changed_enable=notify,
                retry_queue_nums=retry_queues,
                retry_max_times=retry_times,
                attributes=_attributes(attribute),
                cluster=cluster,
                broker_addr=broker,
            )

    note(f"group {group} is changed on {', '.join(run(main()))}")


@app.command()
def delete(
    group: GroupArgument,
    clean_offsets: Annotated[
        bool, typer.Option("--clean-offsets", help="Forget where it stood, too.")
    ] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Delete a group with its retry and dead-letter topics (with --broker, without them)."""
    from pocketmq.client import Admin

    async def main() -> None:
        async with Admin(namesrv) as admin:
            await admin.delete_group(
                group, clean_offset=clean_offsets, cluster=cluster, broker_addr=broker
            )

    run(main())
    note(f"group {group} is deleted")


@app.command("list")
def list_groups(
    all_groups: Annotated[bool, typer.Option("--all", help="The brokers' own, too.")] = False,
    cluster: ClusterOption = None,
    watch: WatchOption = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List groups with their members and how far they are behind."""
    from pocketmq.client import Admin
    from pocketmq.protocol.names.names import BUILT_IN_GROUPS

    async def main() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            names = await admin.groups(cluster=cluster)
            shown = [name for name in names if all_groups or name not in BUILT_IN_GROUPS]
            return [await _summary(admin, name, cluster) for name in shown]

    columns = ("group", "members", "model", "topics", "lag", "conflict")
    show_listing(main, columns, output, watch)


async def _summary(admin: Admin, group: str, cluster: str | None) -> dict[str, Any]:
    tables = list((await admin.consumers(group, cluster=cluster)).values())
    lags = await admin.consume_stats(group)
    return {
        "group": group,
        "members": len({c.client_id for table in tables for c in table.connection_set}),
        "model": ",".join(sorted({t.message_model for t in tables if t.message_model})),
        "topics": len({row.queue.topic for row in lags}),
        "lag": sum(row.lag for row in lags),
        "conflict": "yes" if any(t.subscription_conflict for t in tables) else "",
    }


@app.command()
def show(
    group: GroupArgument,
    cluster: ClusterOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show a group's settings, members and subscriptions, and whether members differ in these."""
    from pocketmq.client import Admin

    async def main() -> tuple[dict[str, GroupConfig], dict[str, ConsumerConnection]]:
        async with Admin(namesrv) as admin:
            configs = await admin.group_configs(group, cluster=cluster)
            return configs, await admin.consumers(group, cluster=cluster)

    configs, members = run(main())
    settings = [_settings_row(address, config) for address, config in configs.items()]
    rows = _member_rows(members)
    subscriptions = _subscription_rows(members)
    conflicts = _conflict_rows(members)
    if output is Format.JSON:
        print_json(
            {
                "group": group,
                "settings": settings,
                "members": rows,
                "subscriptions": subscriptions,
                "conflicts": conflicts,
            }
        )
        return
    print_rows(settings, tuple(settings[0]), output, "Settings")
    columns = ("clientId", "address", "language", "version", "brokers", "subscription")
    print_rows(rows, columns, output, "Members")
    print_rows(subscriptions, ("topic", "type", "expression"), output, "Subscriptions")
    if conflicts:
        print_rows(
            conflicts, ("broker", "members", "subscription", "clientIds"), output, "Conflicts"
        )
        note(
            f"the members of group {group} subscribe differently: each gets only a part of its "
            f"messages. Give all the same subscriptions, or each kind a group of its own"
        )


def _settings_row(address: str, config: GroupConfig) -> dict[str, Any]:
    return {
        "broker": address,
        "consume": config.consume_enable,
        "broadcast": config.consume_broadcast_enable,
        "notify": config.notify_consumer_ids_changed_enable,
        "retryQueues": config.retry_queue_nums,
        "retryTimes": config.retry_max_times,
        "attributes": ",".join(f"{k}={v}" for k, v in sorted(config.attributes.items())),
    }


def _member_rows(members: dict[str, ConsumerConnection]) -> list[dict[str, Any]]:
    """Makes one row for each client, which is connected to every broker of its topics."""
    rows: dict[str, dict[str, Any]] = {}
    for table in members.values():
        for client in table.connection_set:
            row = rows.setdefault(
                client.client_id,
                {
                    "clientId": client.client_id,
                    "address": client.client_addr,
                    "language": client.language,
                    "version": client.version,
                    "brokers": 0,
                    "subscription": client.subscription,
                },
            )
            row["brokers"] += 1
    return [rows[name] for name in sorted(rows)]


def _subscription_rows(members: dict[str, ConsumerConnection]) -> list[dict[str, Any]]:
    found = {
        (s.topic, s.expression_type or "TAG", s.sub_string)
        for table in members.values()
        for s in table.subscription_table.values()
    }
    return [{"topic": t, "type": kind, "expression": text} for t, kind, text in sorted(found)]


def _conflict_rows(members: dict[str, ConsumerConnection]) -> list[dict[str, Any]]:
    return [
        {
            "broker": address,
            "members": side.member_count,
            "subscription": side.subscription,
            "clientIds": ", ".join(side.client_ids),
        }
        for address, table in members.items()
        for side in table.subscription_conflict or ()
    ]
