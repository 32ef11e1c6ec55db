"""`pocketmq send` and `pocketmq consume`: messages in and out of pipes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pocketmq.cli.options import NAMESRV_DEFAULT, NamesrvOption, TopicArgument
from pocketmq.cli.output import EXIT_FAILED, Format, FormatOption, note, print_rows
from pocketmq.protocol.errors import UsageError
from pocketmq.transport.clock import SystemClock, within
from pocketmq.transport.runtime import run
from pocketmq.transport.tasks import Tasks

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer
    from pocketmq.protocol.message import Message, ReceivedMessage

HOLD_MS = 10_000
BUFFER_MESSAGES_MAX = 1024
SEND_COLUMNS = ("status", "msgId", "broker", "queue", "offset")


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
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: FormatOption = Format.TABLE,
) -> None:
    """Send a message, or one for each line of standard input."""
    properties = _properties(property_ or [])

    def message(text: str) -> Message:
        from pocketmq.client import Message

        return Message(
            topic, text, tags=tag, keys=key or (), sharding_key=sharding_key, properties=properties
        )

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
                )
        return rows

    print_rows(run(main()), SEND_COLUMNS, output)


def _properties(texts: list[str]) -> dict[str, str]:
    out = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise UsageError(f"--property {text!r} is not of the form name=value")
        out[name] = value
    return out


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
    tag: Annotated[str, typer.Option(help="Only these: 'TagA || TagB'.")] = "*",
    namesrv: NamesrvOption = NAMESRV_DEFAULT,
    output: Annotated[
        Format, typer.Option("-o", "--output", help="table: bodies only; json: one object a line.")
    ] = Format.TABLE,
) -> None:
    """Print messages as they come, one body a line.

    Without a group every message is shown to everybody, and nothing is committed. The exit code is
    1 if fewer than --count messages came.
    """

    async def main() -> int:
        seen = 0
        async with _messages(topic, group, from_beginning, tag, namesrv) as messages:
            while not count or seen < count:
                try:
                    message = await _next(messages, timeout)
                except TimeoutError:
                    break
                _print_message(message, output)
                seen += 1
        return seen

    seen = run(main())
    if count and seen < count:
        note(f"only {seen} of {count} messages came within {timeout:g} s of each other")
        raise typer.Exit(EXIT_FAILED)


async def _next(messages: asyncio.Queue[ReceivedMessage], timeout_s: float) -> ReceivedMessage:
    if not timeout_s:
        return await messages.get()
    return await within(SystemClock(), timeout_s, messages.get())


@asynccontextmanager
async def _messages(
    topic: str, group: str | None, from_beginning: bool, tag: str, namesrv: str
) -> AsyncIterator[asyncio.Queue[ReceivedMessage]]:
    """A topic's messages, all queues side by side, in order within each queue."""
    from pocketmq.client import PullConsumer

    messages: asyncio.Queue[ReceivedMessage] = asyncio.Queue(BUFFER_MESSAGES_MAX)
    tasks = Tasks()
    async with PullConsumer(group or "pocketmq_cli", namesrv) as consumer:
        try:
            for queue in await consumer.queues(topic):
                offset = await _start(consumer, queue, group, from_beginning)
                tasks.spawn(_follow(consumer, queue, offset, tag, group, messages), str(queue))
            yield messages
        finally:
            await tasks.close()


async def _start(
    consumer: PullConsumer, queue: MessageQueue, group: str | None, from_beginning: bool
) -> int:
    if group is not None:
        committed = await consumer.committed_offset(queue)
        if committed is not None:
            return committed
    if from_beginning:
        return await consumer.min_offset(queue)
    return await consumer.max_offset(queue)


async def _follow(
    consumer: PullConsumer,
    queue: MessageQueue,
    offset: int,
    tag: str,
    group: str | None,
    messages: asyncio.Queue[ReceivedMessage],
) -> None:
    while True:
        result = await consumer.pull(queue, offset, expression=tag, hold_ms=HOLD_MS)
        for message in result.messages:
            await messages.put(message)
            if group is not None:
                await consumer.commit(queue, message.queue_offset + 1)
        offset = result.next_offset


def _print_message(message: ReceivedMessage, output: Format) -> None:
    if output is Format.TABLE:
        sys.stdout.buffer.write(message.body + b"\n")
    else:
        text = json.dumps(
            {
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
            },
            ensure_ascii=False,
        )
        sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()
