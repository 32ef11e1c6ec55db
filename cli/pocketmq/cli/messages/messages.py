"""The commands `pocketmq send`, `recall` and `consume`."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from pocketmq.cli.options import (
    NAMESRV_DEFAULT,
    NamesrvOption,
    TopicArgument,
    duration_ms,
    name_value_pairs,
    time_ms,
)
from pocketmq.cli.output import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    Format,
    FormatOption,
    note,
    print_rows,
)
from pocketmq.cli.pipes.message_format import JSON, LINE, message_format
from pocketmq.cli.pipes.reading import (
    CountOption,
    Reading,
    SqlOption,
    TagOption,
    expression_of,
    write_messages,
)
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

BODY_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of a body, as `maxMessageSize` of clients and brokers has it."""

SEND_COLUMNS = ("status", "msgId", "broker", "queue", "offset")
TIMER_COLUMNS = (*SEND_COLUMNS, "recallHandle")
RECALL_COLUMNS = ("recalled",)


def send(
    topic: TopicArgument,
    body: Annotated[str | None, typer.Argument(help="The body; or give --file.")] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "-f", "--file", help="A file whose bytes are the body; -: standard input, to its end."
        ),
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
    """Send one message; `pocketmq produce` sends each line of standard input."""
    properties = name_value_pairs("--property", property_)
    delay_ms = 0 if delay is None else duration_ms("--delay", delay)
    deliver_at_ms = 0 if deliver_at is None else time_ms("--deliver-at", deliver_at)
    is_timer = bool(delay_ms or deliver_at_ms)
    content = _content(body, file)

    async def main() -> list[dict[str, Any]]:
        from pocketmq.client import Message, Producer, by_hash

        message = Message(
            topic, content, tags=tag, keys=key or (), sharding_key=sharding_key,
            properties=properties, delay_ms=delay_ms, deliver_at_ms=deliver_at_ms,
        )  # fmt: skip
        async with Producer("pocketmq_cli", namesrv) as producer:
            result = await producer.send(message, selector=by_hash if sharding_key else None)
        return [
            {
                "status": result.status.name,
                "msgId": result.msg_id,
                "broker": result.queue.broker_name,
                "queue": result.queue.queue_id,
                "offset": result.queue_offset,
                "recallHandle": result.recall_handle,
            }
        ]

    print_rows(run(main()), TIMER_COLUMNS if is_timer else SEND_COLUMNS, output)


def _content(body: str | None, file: str | None) -> bytes:
    """Reads the body to send.

    Raises:
        UsageError: there is none, or two, or it is empty or larger than any broker takes it.
    """
    if (body is None) == (file is None):
        raise UsageError("give the body as an argument or by --file, one of the two")
    if body is not None:
        content = body.encode()
    elif file == "-":
        content = sys.stdin.buffer.read(BODY_SIZE_MAX + 1)
    else:
        try:
            with open(file or "", "rb") as source:
                content = source.read(BODY_SIZE_MAX + 1)
        except OSError as e:
            raise UsageError(f"--file {file} cannot be read: {e.strerror}") from e
    if not content:
        raise UsageError("the body is empty, which brokers refuse: give it at least one byte")
    if len(content) > BODY_SIZE_MAX:
        raise UsageError(
            f"--file {file} is larger than {BODY_SIZE_MAX} bytes, the largest message of RocketMQ: "
            f"cut it in pieces, or send the place where it can be fetched"
        )
    return content


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
    count: CountOption = 0,
    timeout: Annotated[
        float, typer.Option(help="Stop when nothing came for so many seconds; 0: never.")
    ] = 0.0,
    from_beginning: Annotated[
        bool, typer.Option("--from-beginning", help="From the oldest message on.")
    ] = False,
    tag: TagOption = None,
    sql: SqlOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="table: bodies only; json: one object a line.")
    ] = Format.TABLE,
) -> None:
    """Print messages as they come, as a group that commits what was printed.

    Without a group this is `pocketmq tail`, and nothing is committed. A broker that goes away is
    waited for. The exit code is 1 if fewer than --count messages came.
    """
    from pocketmq.client.copying.start_point import BEGINNING, END

    reading = Reading(
        topic=topic,
        namesrv=namesrv,
        format=message_format(JSON if output is Format.JSON else LINE),
        group=group,
        start=BEGINNING if from_beginning else END,
        expression=expression_of(tag, sql),
        count=count,
        timeout_s=timeout,
    )
    seen, is_interrupted = run(write_messages(reading))
    if is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)
    if count and seen < count:
        note(f"only {seen} of {counted(count, 'message')} came within {timeout:g} s of each other")
        raise typer.Exit(EXIT_FAILED)
