"""The commands `pocketmq group offsets|lag|reset`, which show and set offsets of groups."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.administration.groups import GroupArgument, app
from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption
from pocketmq.cli.output import Format, FormatOption, date, note, print_rows
from pocketmq.cli.watching import WatchOption, show_listing
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

if TYPE_CHECKING:
    from pocketmq.client import QueueLag

__all__ = ["app"]

TopicOption = Annotated[str | None, typer.Option(help="Only in this topic.")]
LAG_COLUMNS = ("topic", "broker", "queue", "brokerOffset", "consumerOffset", "lag", "inflight",
               "lastConsumed")  # fmt: skip
SUM_COLUMNS = ("topic", "queues", "lag", "inflight", "lastConsumed")


@app.command()
def offsets(
    group: GroupArgument,
    topic: TopicOption = None,
    watch: WatchOption = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show where a group stands in each queue."""
    show_listing(partial(_queue_rows, namesrv, group, topic), LAG_COLUMNS, output, watch)


@app.command()
def lag(
    group: GroupArgument,
    topic: TopicOption = None,
    queues: Annotated[bool, typer.Option("--queues", help="Each queue by itself.")] = False,
    watch: WatchOption = 0,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show how far a group is behind: what it has not consumed, and what of it was pulled."""
    read, columns = (_queue_rows, LAG_COLUMNS) if queues else (_topic_rows, SUM_COLUMNS)
    rows = show_listing(partial(read, namesrv, group, topic), columns, output, watch)
    if output is Format.TABLE:
        note(
            f"{counted(sum(row['lag'] for row in rows), 'message')} behind, "
            f"{sum(row['inflight'] for row in rows)} of them under way"
        )


async def _queue_rows(namesrv: str, group: str, topic: str | None) -> list[dict[str, Any]]:
    return [_lag_row(row) for row in await _stats(namesrv, group, topic)]


async def _topic_rows(namesrv: str, group: str, topic: str | None) -> list[dict[str, Any]]:
    return _lag_sums(await _stats(namesrv, group, topic))


async def _stats(namesrv: str, group: str, topic: str | None) -> list[QueueLag]:
    from pocketmq.client import Admin

    async with Admin(namesrv) as admin:
        await admin.group_configs(group)
        return await admin.consume_stats(group, topic)


def _lag_row(row: QueueLag) -> dict[str, Any]:
    return {
        "topic": row.queue.topic,
        "broker": row.queue.broker_name,
        "queue": row.queue.queue_id,
        "brokerOffset": row.broker_offset,
        "consumerOffset": row.consumer_offset,
        "lag": row.lag,
        "inflight": row.inflight,
        "lastConsumed": date(row.last_timestamp_ms),
    }


def _lag_sums(stats: Sequence[QueueLag]) -> list[dict[str, Any]]:
    rows = []
    for topic in sorted({row.queue.topic for row in stats}):
        of_topic = [row for row in stats if row.queue.topic == topic]
        rows.append(
            {
                "topic": topic,
                "queues": len(of_topic),
                "lag": sum(row.lag for row in of_topic),
                "inflight": sum(row.inflight for row in of_topic),
                "lastConsumed": date(max(row.last_timestamp_ms for row in of_topic)),
            }
        )
    return rows


@app.command()
def reset(
    group: GroupArgument,
    to: Annotated[
        str,
        typer.Option(
            help="earliest, latest, an offset, or a time such as 2026-01-31T12:00:00 (UTC unless "
            "it says otherwise).",
            show_default=False,
        ),
    ],
    topic: Annotated[str, typer.Option(help="In which topic.", show_default=False)],
    queue: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this queue, as BROKER:ID or, with one broker, ID; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Put a group elsewhere in a topic; members that run go on there at once."""
    from pocketmq.cli.administration.reset_points import queues_named, reset_point
    from pocketmq.client import Admin

    point = reset_point(to)

    async def main() -> list[dict[str, Any]]:
        async with Admin(namesrv) as admin:
            await admin.group_configs(group)
            chosen = None
            if queue is not None:
                route = await admin.topic_route(topic)
                chosen = queues_named(topic, (d.broker_name for d in route.queue_datas), queue)
            done = await admin.reset_offsets(group, topic, queues=chosen, dry_run=dry_run, **point)
        return [
            {
                "topic": row.queue.topic,
                "broker": row.queue.broker_name,
                "queue": row.queue.queue_id,
                "before": row.before,
                "after": row.after,
            }
            for row in done
        ]

    rows = run(main())
    print_rows(rows, ("topic", "broker", "queue", "before", "after"), output)
    if dry_run:
        note("nothing was changed (--dry-run)")
