"""The commands `pocketmq tail` and `pocketmq record`, which write messages to pipes and files."""

from __future__ import annotations

from typing import Annotated

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument, duration_ms
from pocketmq.cli.output import EXIT_INTERRUPTED, note
from pocketmq.cli.pipes.decoding import (
    DecodeOption,
    RegistryOption,
    SchemaOption,
    decoding_format,
)
from pocketmq.cli.pipes.message_format import JSON, LINE, delimiter_of, fields_text, message_format
from pocketmq.cli.pipes.reading import (
    CountOption,
    QueuesOption,
    Reading,
    SqlOption,
    TagOption,
    ToEndOption,
    expression_of,
    write_messages,
)
from pocketmq.cli.pipes.start_points import start_point
from pocketmq.cli.times import timestamp_ms_of
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.process import run
from pocketmq.runtime.text import counted

OffsetOption = Annotated[
    str,
    typer.Option(
        "-O",
        "--offset",
        help="Where to begin: beginning, end, an offset, -5 for the last five of each queue, or a "
        "time such as 2026-01-31T12:00:00 (UTC unless it says otherwise).",
    ),
]


def tail(
    topic: TopicArgument,
    format_: Annotated[
        str,
        typer.Option(
            "-f",
            "--format",
            "-o",
            "--output",
            help=f"line: bodies; json: one object a line, which `produce -f json` reads; or a text "
            f"with fields: {fields_text()}; and \\n, \\t, \\xHH.",
        ),
    ] = LINE,
    offset: OffsetOption = "end",
    to_end: ToEndOption = False,
    count: CountOption = 0,
    queue: QueuesOption = None,
    tag: TagOption = None,
    sql: SqlOption = None,
    delimiter: Annotated[
        str, typer.Option("-D", "--delimiter", help="What follows each body of --format line.")
    ] = "\\n",
    decode: DecodeOption = False,
    schema: SchemaOption = None,
    schema_registry: RegistryOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Write a topic's messages to standard output as they come; nothing is consumed.

    Messages of a queue stay in order; between queues the oldest comes first. Ends on Ctrl-C,
    with 130 as shells expect it, and when the reader of its output goes away.
    """
    written = message_format(format_, delimiter_of(delimiter))
    reading = Reading(
        topic=topic,
        namesrv=namesrv,
        format=decoding_format(written, decode=decode, schema=schema, registry=schema_registry),
        start=start_point(offset),
        queues=queue,
        expression=expression_of(tag, sql),
        to_end=to_end,
        count=count,
    )
    if run(write_messages(reading)).is_interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def record(
    topic: TopicArgument,
    offset: OffsetOption = "end",
    to_end: ToEndOption = False,
    count: CountOption = 0,
    for_: Annotated[
        str | None, typer.Option("--for", help="Stop after so long: 90s, 10m, 2h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Stop at this time, such as 2026-01-31T12:00:00 (UTC).")
    ] = None,
    queue: QueuesOption = None,
    tag: TagOption = None,
    sql: SqlOption = None,
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
) -> None:
    """Record a topic's messages with their times: `pocketmq record Orders > orders.jsonl`.

    From now on, or from --offset, until Ctrl-C, --count, --for, --until or, with --exit, the last
    message that is there. `pocketmq replay orders.jsonl` plays it back.
    """
    if for_ is not None and until is not None:
        raise UsageError("give --for or --until, not both")
    until_ms = None
    if for_ is not None:
        until_ms = SystemClock().now_ms() + duration_ms("--for", for_)
    elif until is not None:
        until_ms = timestamp_ms_of("--until", until)
    reading = Reading(
        topic=topic,
        namesrv=namesrv,
        format=message_format(JSON),
        start=start_point(offset),
        queues=queue,
        expression=expression_of(tag, sql),
        to_end=to_end,
        count=count,
        until_ms=until_ms,
    )
    note(f"{counted(run(write_messages(reading)).message_count, 'message')} of {topic} recorded")
