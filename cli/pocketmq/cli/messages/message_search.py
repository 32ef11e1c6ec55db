"""The commands `pocketmq message …`: show stored messages, find them by key, read their traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument
from pocketmq.cli.output import (
    EXIT_FAILED,
    Format,
    FormatOption,
    date,
    note,
    print_json,
    print_rows,
)
from pocketmq.cli.times import timestamp_ms_of
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message_json import body_fields, message_document
from pocketmq.runtime.process import run

if TYPE_CHECKING:
    from pocketmq.client.admin.messages import IndexName
    from pocketmq.protocol.messages.message import ReceivedMessage
    from pocketmq.protocol.messages.trace import TraceRecord

app = typer.Typer(help="Look at, find and trace stored messages.", no_args_is_help=True)

FOUND_COLUMNS = ("stored", "msgId", "broker", "queue", "offset", "keys", "tags", "size")
TRACE_COLUMNS = ("time", "kind", "group", "result", "cost", "host", "requestId")

BeginOption = Annotated[
    str | None, typer.Option(help="Stored then or later, such as 2026-01-31T12:00:00 (UTC).")
]
EndOption = Annotated[str | None, typer.Option(help="Stored then or earlier.")]


@app.command()
def get(
    msg_id: Annotated[
        str, typer.Argument(help="The offset message id; with --topic the client's id.")
    ],
    topic: Annotated[
        str | None, typer.Option(help="The topic in which the client's id is looked for.")
    ] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show one message with all that is known of it."""
    from pocketmq.client import Admin

    async def main() -> ReceivedMessage | None:
        async with Admin(namesrv) as admin:
            if topic is None:
                return await admin.view_message(msg_id)
            return await admin.message_by_unique_key(topic, msg_id)

    message = run(main())
    if message is None:
        note(f"no message {msg_id} in topic {topic}")
        raise typer.Exit(EXIT_FAILED)
    document = _whole(message)
    if output is Format.JSON:
        print_json(document)
        return
    for name in ("bornTimestamp", "storeTimestamp"):
        document[name] = date(document[name])
    for name, value in document.items():
        if isinstance(value, dict):
            typer.echo(f"{name}:")
            for key, text in value.items():
                typer.echo(f"  {key}: {text}")
        else:
            typer.echo(f"{name}: {' '.join(value) if isinstance(value, list) else value}")


def _whole(message: ReceivedMessage) -> dict[str, Any]:
    body = body_fields(message.body)
    document = {k: v for k, v in message_document(message).items() if k not in body}
    return document | {
        "offsetMsgId": message.offset_msg_id,
        "physicalOffset": message.physical_offset,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "sysFlag": message.sys_flag,
        "size": message.store_size,
    } | body  # fmt: skip


@app.command()
def find(
    topic: TopicArgument,
    key: Annotated[
        str | None, typer.Option(help="Messages with this key, or with this id of the client's.")
    ] = None,
    tag: Annotated[str | None, typer.Option(help="Messages with this tag instead.")] = None,
    begin: BeginOption = None,
    end: EndOption = None,
    count: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 64,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """List the newest messages with a key or a tag; exit code 1 if there are none."""
    if (key is None) == (tag is None):
        raise UsageError("give either --key or --tag")
    from pocketmq.client import Admin

    index: IndexName = "key" if tag is None else "tag"

    async def main() -> list[ReceivedMessage]:
        async with Admin(namesrv) as admin:
            return await admin.query_messages(
                topic,
                key or tag or "",
                index=index,
                count_max=count,
                **_times(begin, end),
            )

    found = run(main())
    if output is Format.JSON:
        print_json([_whole(message) for message in found])
    else:
        print_rows([_row(message) for message in found], FOUND_COLUMNS, output)
    if not found:
        note(f"no message of topic {topic} has {'the key' if tag is None else 'the tag'} "
             f"{key or tag}")  # fmt: skip
        raise typer.Exit(EXIT_FAILED)


def _row(message: ReceivedMessage) -> dict[str, Any]:
    return {
        "stored": date(message.store_timestamp),
        "msgId": message.msg_id,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "keys": " ".join(message.keys),
        "tags": message.tags,
        "size": message.store_size,
    }


@app.command()
def trace(
    msg_id: Annotated[str, typer.Argument(help="The id that the sending client gave.")],
    trace_topic: Annotated[
        str | None, typer.Option(help="Where clients write traces, if not as usual.")
    ] = None,
    begin: BeginOption = None,
    end: EndOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Show who sent and consumed a message, as clients with traces told it."""
    from pocketmq.client import Admin
    from pocketmq.protocol.names.names import TRACE_TOPIC

    async def main() -> list[TraceRecord]:
        async with Admin(namesrv) as admin:
            return await admin.message_trace(
                msg_id, trace_topic=trace_topic or TRACE_TOPIC, **_times(begin, end)
            )

    records = run(main())
    print_rows([_trace_row(record) for record in records], TRACE_COLUMNS, output)
    if not records:
        note(f"nobody has told anything of message {msg_id}")
        raise typer.Exit(EXIT_FAILED)


def _trace_row(record: TraceRecord) -> dict[str, Any]:
    def field(name: str) -> Any:
        return getattr(record, name, None)

    time_ms, cost_ms, state = field("time_ms"), field("cost_ms"), field("state")
    success = {True: "success", False: "failed", None: None}[field("is_success")]
    return_type = field("return_type")
    return {
        "time": date(time_ms) if time_ms else None,
        "kind": record.kind,
        "group": field("group"),
        "result": state.value if state else return_type.name if return_type else success,
        "cost": None if cost_ms is None else f"{cost_ms} ms",
        "host": field("store_host"),
        "requestId": field("request_id"),
    }


def _times(begin: str | None, end: str | None) -> dict[str, int]:
    out = {}
    if begin is not None:
        out["begin_ms"] = timestamp_ms_of("--begin", begin)
    if end is not None:
        out["end_ms"] = timestamp_ms_of("--end", end)
    return out
