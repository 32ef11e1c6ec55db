"""Writes messages of a topic to standard output, for `tail`, `record` and `consume`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from pocketmq.cli.administration.reset_points import queues_named
from pocketmq.cli.output import note
from pocketmq.cli.pipes.message_format import MessageFormat
from pocketmq.cli.pipes.standard_streams import OutputPipe
from pocketmq.cli.signals import stop_event
from pocketmq.protocol.errors import UsageError
from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.runtime.tasks import Tasks

if TYPE_CHECKING:
    from pocketmq.client import MessageQueue, PullConsumer
    from pocketmq.client.copying.start_point import StartPoint
    from pocketmq.client.copying.topic_feed import TopicFeed
    from pocketmq.client.message_selector import Expression
    from pocketmq.protocol.messages.message import ReceivedMessage

READER_GROUP = "pocketmq_cli"
"""The group of readers that named none; it never commits."""

CHUNK_SIZE = 64 * 1024
"""Bytes that are written together while more messages wait."""

TagOption = Annotated[str | None, typer.Option("--tag", help="Only these: 'TagA || TagB'.")]
SqlOption = Annotated[
    str | None,
    typer.Option("--sql", help='Only what fulfils a SQL92 condition: "a > 5 AND b IS NULL".'),
]
QueuesOption = Annotated[
    list[str] | None,
    typer.Option(
        "-q", "--queue", help="Only this queue, as BROKER:ID or, with one broker, ID; repeatable."
    ),
]
ToEndOption = Annotated[
    bool, typer.Option("-e", "--exit", help="Stop at the messages that are there now.")
]
CountOption = Annotated[
    int, typer.Option("-c", "--count", min=0, help="Stop after so many; 0: never.")
]


class Reading(msgspec.Struct, kw_only=True):
    """The messages to read, and when to stop.

    Attributes:
        topic: the topic.
        namesrv: the name servers.
        format: formats each message.
        group: the group whose offsets are used and committed; None for no group.
        start: the point to begin at in queues without an offset of the group.
        queues: the only queues to read, as written by the user.
        expression: the filter of messages.
        to_end: stop at the messages that are there now.
        count: messages to stop after; 0 for never.
        timeout_s: seconds without a message to stop after; 0 for never.
        until_ms: the time to stop at; None for never.
    """

    topic: str
    namesrv: str
    format: MessageFormat
    group: str | None = None
    start: StartPoint
    queues: list[str] | None = None
    expression: Any = None
    to_end: bool = False
    count: int = 0
    timeout_s: float = 0
    until_ms: int | None = None


def expression_of(tag: str | None, sql: str | None) -> Expression:
    """Reads the filter of --tag or --sql.

    Raises:
        BadParameter: both are given, or the text is no condition.
    """
    if sql is None:
        return tag or "*"
    if tag is not None:
        raise typer.BadParameter("give --tag or --sql, not both: TAGS is a property, too")
    from pocketmq.client import FilterSyntaxError, MessageSelector

    try:
        return MessageSelector.by_sql(sql)
    except FilterSyntaxError as e:
        raise typer.BadParameter(f"--sql: {e}") from e


class Written(NamedTuple):
    """What `write_messages` has done.

    Attributes:
        message_count: messages written.
        is_interrupted: INT or TERM ended it.
    """

    message_count: int
    is_interrupted: bool


async def write_messages(reading: Reading, clock: Clock | None = None) -> Written:
    """Writes messages until there is a reason to stop, INT and TERM among them.

    Raises:
        BrokenPipeError: the reader of standard output went away.
        PocketMQError: a queue cannot be read any further.
    """
    from pocketmq.client import PullConsumer
    from pocketmq.client.copying.topic_feed import TopicFeed

    clock, stop, tasks = clock or SystemClock(), stop_event(), Tasks()
    commits = reading.group is not None
    async with PullConsumer(
        reading.group or READER_GROUP, reading.namesrv, register=commits
    ) as consumer:
        queues = await _queues(consumer, reading)
        async with OutputPipe(stop) as out:
            feed = TopicFeed(
                consumer, clock, expression=reading.expression, commits=commits, on_note=note
            )

            async def end() -> None:
                await stop.wait()
                feed.stop()

            tasks.spawn(end(), "stop")
            try:
                async with feed:
                    is_past = reading.until_ms is not None and _is_past(reading, clock, feed)
                    to_end = reading.to_end or is_past
                    await feed.start(reading.topic, reading.start, queues=queues, to_end=to_end)
                    written = await _write_all(reading, feed, out)
            finally:
                await tasks.close()
            if out.is_closed:
                raise BrokenPipeError
    return Written(written, stop.is_set())


def _is_past(reading: Reading, clock: Clock, feed: TopicFeed) -> bool:
    """Tells whether the time to stop has passed; otherwise stops the feed at that time."""
    left_s = ((reading.until_ms or 0) - clock.now_ms()) / 1000
    if left_s > 0:
        clock.call_later(left_s, feed.stop)
    return left_s <= 0


async def _write_all(reading: Reading, feed: TopicFeed, out: OutputPipe) -> int:
    written = unflushed = 0
    while not reading.count or written < reading.count:
        try:
            message = await feed.next(reading.timeout_s)
        except TimeoutError:
            break
        if message is None:
            break
        if _is_late(message, reading):
            continue
        data = reading.format(message)
        out.write(data)
        written += 1
        unflushed += len(data)
        if feed.is_waiting or unflushed >= CHUNK_SIZE or reading.group is not None:
            out.flush()
            unflushed = 0
        await feed.mark_done()
    out.flush()
    return written


def _is_late(message: ReceivedMessage, reading: Reading) -> bool:
    return reading.until_ms is not None and message.store_timestamp > reading.until_ms


async def _queues(consumer: PullConsumer, reading: Reading) -> list[MessageQueue] | None:
    if reading.queues is None:
        return None
    known = await consumer.queues(reading.topic)
    brokers = (queue.broker_name for queue in known)
    chosen = queues_named(reading.topic, brokers, reading.queues)
    for queue in chosen:
        if queue not in known:
            raise UsageError(f"--queue: {queue} is no queue that can be read")
    return chosen
