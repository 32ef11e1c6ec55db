"""Plays a recording: sends its messages again, with the same pauses between them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing

import msgspec

from pocketmq.cli.pipes.outflow import Destination, Outcome, Outflow
from pocketmq.cli.pipes.standard_streams import InputPipe
from pocketmq.client.copying.message_files import LineSplitter, file_lines
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message_json import MessageDocument, document_of_line
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.text import counted

STANDARD_INPUT = "-"
"""The source that stands for standard input instead of a file."""

PROGRESS_EVERY_S = 1.0


class Playback(msgspec.Struct, kw_only=True):
    """The recording to play, and how to play it.

    Attributes:
        source: a file of JSON lines, or `STANDARD_INPUT`.
        destination: the topic and cluster to send to; by default the topic of the first message.
        speed: the factor by which pauses are shortened; None for no pauses.
        first: the line number of the message to begin with.
        count: messages to stop after; 0 for never.
        shows_progress: print progress to standard error each second.
    """

    source: str
    destination: Destination
    speed: float | None = 1.0
    first: int = 1
    count: int = 0
    shows_progress: bool = False


async def play(playback: Playback, outcome: Outcome, clock: Clock, stop: asyncio.Event) -> None:
    """Plays until the recording ends, `stop` is set, or a message fails that ends it.

    Args:
        playback: the recording.
        outcome: counts each message.
        clock: the time that pauses go by.
        stop: ends playing when it is set.

    Raises:
        ConfigError: the recording cannot be read.
        RouteError, NoNameServerError: there is nowhere to send to.
    """
    pauses, out, begun = _Pauses(playback.speed, clock, stop), None, 0
    async with AsyncExitStack() as stack:
        lines = await stack.enter_async_context(aclosing(_lines(playback, stop)))
        if playback.shows_progress:
            showing = asyncio.create_task(_show_progress(outcome, clock))
            stack.callback(showing.cancel)
        async for number, line in lines:
            try:
                document = document_of_line(line)
                _choose_topic(playback.destination, document)
            except UsageError as e:
                outcome.begin(number)
                if not outcome.fail(number, e):
                    break
                continue
            if out is None:
                out = await stack.enter_async_context(Outflow(playback.destination, outcome))
            await pauses.pass_before(document)
            if stop.is_set():
                break
            begun += 1
            if not await out.put(number, document) or begun == playback.count:
                break


def _choose_topic(destination: Destination, document: MessageDocument) -> None:
    """Chooses the topic of the first message if the user chose none.

    Raises:
        UsageError: the first message has no topic, or a later one has another topic.
    """
    if destination.topic and (
        destination.is_topic_given or document.topic in (None, destination.topic)
    ):
        return
    if destination.topic:
        raise UsageError(
            f"this is a message of {document.topic}, and the first one was of {destination.topic}: "
            f"say with --topic where all of them go"
        )
    if document.topic is None:
        raise UsageError("the message does not name its topic: say with --topic where it goes")
    destination.topic = document.topic


class _Pauses:
    """Waits until a message is due, counted from the first message."""

    def __init__(self, speed: float | None, clock: Clock, stop: asyncio.Event) -> None:
        self._speed, self._clock, self._stop = speed, clock, stop
        self._first_ms: int | None = None

    async def pass_before(self, document: MessageDocument) -> None:
        stored_ms = document.store_timestamp
        if self._speed is None or stored_ms is None:
            return
        if self._first_ms is None:
            self._first_ms, self._started_s = stored_ms, self._clock.monotonic()
        due_s = self._started_s + (stored_ms - self._first_ms) / 1000 / self._speed
        left_s = due_s - self._clock.monotonic()
        if left_s > 0:
            try:
                await within(self._clock, left_s, self._stop.wait())
            except TimeoutError:
                return


async def _lines(
    playback: Playback, stop: asyncio.Event
) -> AsyncGenerator[tuple[int, bytes], None]:
    if playback.source != STANDARD_INPUT:
        for number, line in file_lines(playback.source, playback.first):
            yield number, line
        return
    async with InputPipe(stop) as source:
        async for number, line in source.lines(LineSplitter()):
            if number >= playback.first and line.strip():
                yield number, line


async def _show_progress(outcome: Outcome, clock: Clock) -> None:
    while True:
        await clock.sleep(PROGRESS_EVERY_S)
        sys.stderr.write(f"\r{counted(outcome.sent, 'message')} replayed ")
        sys.stderr.flush()
