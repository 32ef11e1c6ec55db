"""The commands `pocketmq topic …`: create, list, show, change and delete topics."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument
from pocketmq.cli.output import Format, FormatOption, date, note, print_rows
from pocketmq.cli.watching import WatchOption, show_listing
from pocketmq.protocol.errors import OperatingError, UsageError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE, perm_text
from pocketmq.protocol.names.names import is_system_topic
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.client import Admin, BrokerRow, QueueState
    from pocketmq.protocol.bodies.routes import TopicRoute

app = typer.Typer(help="Create, list, look at, change and delete topics.", no_args_is_help=True)

ClusterOption = Annotated[str | None, typer.Option(help="Only on this cluster.")]
BrokerOption = Annotated[str | None, typer.Option(help="Only on the broker at HOST:PORT.")]
PERMISSIONS = {"r": PERM_READ, "w": PERM_WRITE, "rw": PERM_READ | PERM_WRITE}


def _permission(text: str) -> int:
    value = PERMISSIONS.get(text.lower())
    if value is None:
        raise UsageError(f"--perm is {text!r}: it must be r, w or rw")
    return value


@app.command()
def create(
    topic: TopicArgument,
    queues: Annotated[int, typer.Option(help="Read and write queues on each broker.")] = 16,
    read_queues: Annotated[int | None, typer.Option(help="Read queues, if not the same.")] = None,
    write_queues: Annotated[int | None, typer.Option(help="Write queues, if not the same.")] = None,
    perm: Annotated[str, typer.Option(help="r, w or rw.")] = "rw",
    order: Annotated[bool, typer.Option("--order", help="An order topic.")] = False,
    attribute: Annotated[
        list[str] | None, typer.Option(help="+name=value or -name; may be repeated.")
    ] = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic as it is that exists.")
    ] = False,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Create a topic; one that exists with other settings is refused."""
    from pocketmq.client import Admin, TopicExistsError

    async def main() -> list[str]:
        async with Admin(namesrv) as admin:
            return await admin.create_topic(
                topic,
                queues,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=_permission(perm),
                order=order,
                attributes=",".join(attribute) if attribute else None,
                cluster=cluster,
                broker_addr=broker,
                if_exists="keep" if if_not_exists else "refuse",
            )

    try:
        addresses = run(main())
    except TopicExistsError as e:
        raise OperatingError(
            f"{e}: `pocketmq topic update {topic}` changes it, --if-not-exists leaves it as it is"
        ) from e
    note(f"topic {topic} is on {', '.join(addresses)}")


@app.command()
def update(
    topic: TopicArgument,
    read_queues: Annotated[int | None, typer.Option(help="Read queues on each broker.")] = None,
    write_queues: Annotated[int | None, typer.Option(help="Write queues on each broker.")] = None,
    perm: Annotated[str | None, typer.Option(help="r, w or rw.")] = None,
    attribute: Annotated[
        list[str] | None, typer.Option(help="+name=value or -name; may be repeated.")
    ] = None,
    cluster: ClusterOption = None,
    broker: BrokerOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Change queue counts or permission; to shrink, write queues first, read ones when drained."""
    from pocketmq.client import Admin

    async def main() -> tuple[list[str], list[str]]:
        async with Admin(namesrv) as admin:
            before = await admin.topic_route(topic)
            addresses = await admin.update_topic(
                topic,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=None if perm is None else _permission(perm),
                attributes=",".join(attribute) if attribute else None,
                cluster=cluster,
                broker_addr=broker,
            )
            hidden = [row for row in await admin.topic_queues(topic) if row.is_hidden]
            warnings = [*_of_shrinking(before, await admin.topic_route(topic))]
            return addresses, [*warnings, *map(_of_hidden, hidden)]

    addresses, warnings = run(main())
    note(f"topic {topic} is changed on {', '.join(addresses)}")
    for warning in warnings:
        note(f"warning: {warning}")


def _of_shrinking(before: TopicRoute, after: TopicRoute) -> Iterator[str]:
    """Yields warnings of brokers with fewer read queues, or with more write than read queues."""
    had = {data.broker_name: data.read_queue_nums for data in before.queue_datas}
    for data in after.queue_datas:
        reads, writes, name = data.read_queue_nums, data.write_queue_nums, data.broker_name
        if reads < had.get(name, 0):
            yield f"{name} has {reads} read queues now, and had {had[name]}"
        if reads < writes:
            yield (
                f"{name} has more write queues, {writes}, than read queues, {reads}: "
                f"what is sent to the others reaches nobody"
            )


def _of_hidden(row: QueueState) -> str:
    stats = row.stats
    return (
        f"queue {stats.queue.queue_id} on {stats.queue.broker_name} holds {stats.count} messages "
        f"that nobody gets while it is not among the read queues; unread: {_unread(row) or 'none'}"
    )


@app.command()
def delete(
    topic: TopicArgument,
    cluster: ClusterOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Delete a topic with its messages and every group's offsets."""
    from pocketmq.client import Admin

    async def main() -> None:
        async with Admin(namesrv) as admin:
            await admin.delete_topic(topic, cluster=cluster)

    run(main())
    note(f"topic {topic} is deleted")


@app.command("list")
def list_topics(
    all_topics: Annotated[bool, typer.Option("--all", help="The brokers' own, too.")] = False,
    cluster: ClusterOption = None,
    watch: WatchOption = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List topics with their queues."""
    from pocketmq.client import Admin
    from pocketmq.protocol.errors import TopicMissingError

    async def main() -> list[dict[str, Any]]:
        rows = []
        async with Admin(namesrv) as admin:
            brokers = await admin.brokers()
            attributes = await _attributes_of_topics(admin, brokers)
            own = {row.cluster for row in brokers} | {row.broker_name for row in brokers}
            own |= {f"{row.cluster}_REPLY_TOPIC" for row in brokers}
            for name in await admin.topics(cluster=cluster):
                if not all_topics and (is_system_topic(name) or name in own):
                    continue
                try:
                    route = await admin.topic_route(name)
                except TopicMissingError:
                    continue  # it was deleted between the two questions
                rows.append(
                    {
                        "topic": name,
                        "brokers": len(route.queue_datas),
                        "readQueues": sum(q.read_queue_nums for q in route.queue_datas),
                        "writeQueues": sum(q.write_queue_nums for q in route.queue_datas),
                        "perm": ",".join(sorted({perm_text(q.perm) for q in route.queue_datas})),
                        "attributes": "; ".join(sorted(attributes.get(name, ()))),
                    }
                )
        return rows

    columns = ("topic", "brokers", "readQueues", "writeQueues", "perm", "attributes")
    show_listing(main, columns, output, watch)


async def _attributes_of_topics(admin: Admin, brokers: Sequence[BrokerRow]) -> dict[str, set[str]]:
    """Asks each leading broker for what its topics have; one that does not answer is left out."""
    found: dict[str, set[str]] = {}

    async def ask(address: str) -> None:
        with suppress(OperatingError):
            for name, config in (await admin.topic_configs(address)).items():
                if config.attributes:
                    found.setdefault(name, set()).add(_attributes(config.attributes))

    await asyncio.gather(*(ask(broker.address) for broker in brokers if not broker.broker_id))
    return found


def _attributes(attributes: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(attributes.items()))


@app.command()
def route(
    topic: TopicArgument,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show where a topic's queues are, as this caller is told."""
    from pocketmq.client import Admin

    async def main() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            answer = await admin.topic_route(topic)
        data = {d.broker_name: d for d in answer.broker_datas}
        return [
            {
                "cluster": data[q.broker_name].cluster if q.broker_name in data else None,
                "broker": q.broker_name,
                "brokerId": broker_id,
                "address": address,
                "readQueues": q.read_queue_nums,
                "writeQueues": q.write_queue_nums,
                "perm": perm_text(q.perm),
            }
            for q in sorted(answer.queue_datas, key=lambda q: q.broker_name)
            for broker_id, address in sorted(
                data[q.broker_name].broker_addrs.items() if q.broker_name in data else ()
            )
        ]

    columns = ("cluster", "broker", "brokerId", "address", "readQueues", "writeQueues", "perm")
    print_rows(run(main()), columns, output)


@app.command()
def show(
    topic: TopicArgument,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show each queue with what it is for, what it holds, and what groups have not read of it.

    Queues that a smaller topic has left behind are shown as long as they hold messages.
    """
    from pocketmq.client import Admin

    async def main() -> list[QueueState]:
        async with Admin(namesrv) as admin:
            return await admin.topic_queues(topic)

    rows = [
        {
            "broker": row.stats.queue.broker_name,
            "queue": row.stats.queue.queue_id,
            "state": "hidden" if row.is_hidden else _rights(row),
            "minOffset": row.stats.min_offset,
            "maxOffset": row.stats.max_offset,
            "messages": row.stats.count,
            "unread": row.unread if output is Format.JSON else _unread(row),
            "lastStored": date(row.stats.last_update_ms),
            "attributes": _attributes(row.attributes),
        }
        for row in run(main())
    ]
    columns = ["broker", "queue", "state", "minOffset", "maxOffset", "messages", "unread",
               "lastStored"]  # fmt: skip
    if output is Format.JSON or any(row["attributes"] for row in rows):
        columns.append("attributes")
    print_rows(rows, columns, output)


def _rights(row: QueueState) -> str:
    return ("r" if row.is_readable else "") + ("w" if row.is_writable else "")


def _unread(row: QueueState) -> str:
    """Returns the unread messages of each group that has not read all."""
    return ", ".join(f"{group} {count}" for group, count in sorted(row.unread.items()) if count)


@app.command()
def stats(
    topic: TopicArgument,
    watch: WatchOption = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show what each queue of a topic holds."""
    from pocketmq.client import Admin

    async def main() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            return [
                {
                    "broker": row.queue.broker_name,
                    "queue": row.queue.queue_id,
                    "minOffset": row.min_offset,
                    "maxOffset": row.max_offset,
                    "messages": row.count,
                    "lastStored": date(row.last_update_ms),
                }
                for row in await admin.topic_stats(topic)
            ]

    columns = ("broker", "queue", "minOffset", "maxOffset", "messages", "lastStored")
    rows = show_listing(main, columns, output, watch)
    if output is Format.TABLE:
        note(
            f"{counted(sum(row['messages'] for row in rows), 'message')} in "
            f"{counted(len(rows), 'queue')}"
        )
