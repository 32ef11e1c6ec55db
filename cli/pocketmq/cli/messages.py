"""`pocketmq send` and `pocketmq consume`: messages in and out of pipes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.feed import TopicFeed
from pocketmq.cli.options import (
    NAMESRV_DEFAULT,
    NamesrvOption,
    TopicArgument,
    duration_ms,
    name_value_pairs,
    time_ms,
)
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, note, print_rows
from pocketmq.transport.clock import SystemClock
from pocketmq.transport.runtime import run

if TYPE_CHECKING:
    from pocketmq.client.message_selector import Expression
    from pocketmq.protocol.message import Message, ReceivedMessage

SEND_COLUMNS = ("status", "msgId", "broker", "queue", "offset")
TIMER_COLUMNS = (*SEND_COLUMNS, "recallHandle")
RECALL_COLUMNS = ("recalled",)


def send(
    topic: TopicArgument,
    body: Annotated[
        str | None, typer.Argument(help="The body; without it, each line of standard input is one.")
    ] = None,
    key: Annotated[list[str] | None, typer.Option(help="Business key; may be repeated.")] = None,
    tag: Annotated[str | None, typer.Option(help="Tag.")] = None,
    sharding_key: Annotated[
        str | None, typer.Option(help="Equal sharding keys go to the same queue, in order.")
    ] = None,
    property_: Annotated[
        list[str] | None, typer.Option("--property", "-p", help="name=value; may be repeated.")
    ] = None,
    delay: Annotated[
        str | None, typer.Option(help="Deliver so much later: 10s, 1.5m, 2h, 3d or 250ms.")
    ] = None,
    deliver_at: Annotated[
        str | None,
        typer.Option(
            help="Deliver at this time: 2030-01-31T08:00:00, with Z or +01:00 at the end "
            "if it is not local time."
        ),
    ] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send a message, or one for each line of standard input."""
    properties = name_value_pairs("--property", property_)
    delay_ms = 0 if delay is None else duration_ms("--delay", delay)
    deliver_at_ms = 0 if deliver_at is None else time_ms("--deliver-at", deliver_at)
    is_timer = bool(delay_ms or deliver_at_ms)

    def message(text: str) -> Message:
        from pocketmq.client import Message

        return Message(
            topic, text, tags=tag, keys=key or (), sharding_key=sharding_key,
            properties=properties, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms,
        )  # fmt: skip

    async def main() -> list[dict[str, Any]]:
        from pocketmq.client import Producer, by_hash

        rows = []
        async with Producer("pocketmq_cli", namesrv) as producer:
            lines = [body] if body is not None else (line.rstrip("\n") for line in sys.stdin)
            for line in lines:
                if not line:
                    continue
                result = await producer.send(
                    message(line), selector=by_hash if sharding_key else None
                )
                rows.append(
                    {
                        "status": result.status.name,
                        "msgId": result.msg_id,
                        "broker": result.queue.broker_name,
                        "queue": result.queue.queue_id,
                        "offset": result.queue_offset,
                    }
                    | ({"recallHandle": result.recall_handle} if is_timer else {})
                )
        return rows

    print_rows(run(main()), TIMER_COLUMNS if is_timer else SEND_COLUMNS, output)


def recall(
    topic: TopicArgument,
    handle: Annotated[str, typer.Argument(help="The recallHandle that `send` printed.")],
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Call a message back that was sent with --delay or --deliver-at, before it is delivered."""

    async def main() -> str:
        from pocketmq.client import Producer

        async with Producer("pocketmq_cli", namesrv) as producer:
            return await producer.recall(topic, handle)

    print_rows([{"recalled": run(main())}], RECALL_COLUMNS, output)


def consume(
    topic: TopicArgument,
    group: Annotated[
        str | None, typer.Option(help="Consume as this group: its offsets are used and committed.")
    ] = None,
    count: Annotated[int, typer.Option(help="Stop after so many; 0: never.")] = 0,
    timeout: Annotated[
        float, typer.Option(help="Stop when nothing came for so many seconds; 0: never.")
    ] = 0.0,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest message on.")
    ] = False,
    tag: Annotated[str | None, typer.Option(help="Only these: 'TagA || TagB'.")] = None,
    sql: Annotated[
        str | None, typer.Option(help='Only what fulfils a SQL92 condition: "a > 5 AND b IS NULL".')
    ] = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="table: bodies only; json: one object a line.")
    ] = Format.TABLE,
) -> None:
    """Print messages as they come, one body a line.

    Without a group every message is shown to everybody, and nothing is committed. A broker that
    goes away is waited for. The exit code is 1 if fewer than --count messages came.
    """
    expression = _expression_of(tag, sql)

    async def main() -> int:
        from pocketmq.client import PullConsumer

        clock, seen = SystemClock(), 0
        async with (
            PullConsumer(group or "pocketmq_cli", namesrv) as consumer,
            TopicFeed(consumer, clock, expression=expression, commits=group is not None) as feed,
        ):
            await feed.start(topic, from_beginning=from_beginning)
            while not count or seen < count:
                try:
                    message = await feed.next(timeout)
                except TimeoutError:
                    break
                _print_message(message, output)
                await feed.mark_done()
                seen += 1
        return seen

    seen = run(main())
    if count and seen < count:
        note(f"only {seen} of {count} messages came within {timeout:g} s of each other")
        raise typer.Exit(EXIT_FAILED)


def _expression_of(tag: str | None, sql: str | None) -> Expression:
    """What --tag or --sql ask for."""
    if sql is None:
        return tag or "*"
    if tag is not None:
        raise typer.BadParameter("give --tag or --sql, not both: TAGS is a property, too")
    from pocketmq.client import FilterSyntaxError, MessageSelector

    try:
        return MessageSelector.by_sql(sql)
    except FilterSyntaxError as e:
        raise typer.BadParameter(f"--sql: {e}") from e


def _print_message(message: ReceivedMessage, output: Format) -> None:
    if output is Format.TABLE:
        sys.stdout.buffer.write(message.body + b"\n")
    else:
        text = json.dumps(message_document(message), ensure_ascii=False)
        sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


def message_document(message: ReceivedMessage) -> dict[str, Any]:
    """A message as JSON shows it."""
    return {
        "topic": message.topic,
        "broker": message.broker_name,
        "queue": message.queue_id,
        "offset": message.queue_offset,
        "msgId": message.msg_id,
        "keys": list(message.keys),
        "tags": message.tags,
        "properties": message.properties,
        "bornTimestamp": message.born_timestamp,
        "storeTimestamp": message.store_timestamp,
        "body": message.body.decode("utf-8", "backslashreplace"),
    }
