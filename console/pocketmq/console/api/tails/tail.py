"""One tail: looks where a topic's queues end, and pulls of what has come only what it shows."""

from __future__ import annotations

import asyncio
from codecs import getincrementaldecoder
from collections.abc import AsyncGenerator
from typing import NamedTuple

from pocketmq.client import MessageQueue, MessageSelector
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Clients
from pocketmq.console.api.tails.bodies import Ended, TailBatch, TailMessage, TailQuery
from pocketmq.console.api.tails.ends import Ends
from pocketmq.console.api.tails.positions import Arrived, Positions, shares
from pocketmq.console.web.problems import ProblemError
from pocketmq.console.web.streams import BEAT, event
from pocketmq.protocol.errors import NoPermissionError, PocketMQError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.clock import Clock

PAUSE_S = 0.25
"""Seconds from one look to the next."""

BEAT_S = 10.0
"""Seconds without a message after which something is sent all the same."""

LOOKED_AT_MAX = 4_000
"""Messages of one batch through which brokers look for those that fit a tag or a condition."""

PULLS_MAX = 4
"""Pulls from one queue for one batch: brokers give less than they are asked for."""

BATCH_SIZE_MAX = 4 * 1024 * 1024
"""Bytes of bodies after which no more is pulled for a batch."""

SHOWN_CHARACTERS, SHOWN_KEYS = 500, 200
"""Characters of a body, and of keys, in a batch."""


decoder = getincrementaldecoder("utf-8")


class Wanted(NamedTuple):
    """What a tail shows.

    Attributes:
        expression: of the messages, for brokers.
        tag: of the messages, beside a condition; None for any.
        limit: messages of one batch.
        bodies: whether bodies may be shown.
    """

    expression: str | MessageSelector
    tag: str | None
    limit: int
    bodies: bool

    @classmethod
    def by(cls, query: TailQuery, *, bodies: bool) -> Wanted:
        """Reads a query.

        Raises:
            UsageError: its condition is no SQL92.
        """
        expression: str | MessageSelector = query.tag or "*"
        if query.where:
            expression = MessageSelector.by_sql(query.where)
        return cls(expression, query.tag or None, query.limit, bodies)

    @property
    def is_everything(self) -> bool:
        """Whether all messages fit."""
        return self.expression == "*"


class Tail:
    """Follows a topic; stores no offsets, and registers nowhere.

    Args:
        clients: of the caller.
        topic: its name.
        wanted: what to show.
        seconds: for how long.
        clock: the source of time.
    """

    def __init__(
        self, clients: Clients, topic: str, wanted: Wanted, seconds: float, clock: Clock
    ) -> None:
        self._reader, self._ends = clients.reader, Ends(clients, topic)
        self._topic, self._wanted = topic, wanted
        self._seconds, self._clock = seconds, clock
        self._positions = Positions(topic, {}, None)
        self._turn = 0
        self._due, self._is_stopped = asyncio.Event(), False

    async def begin(self, cursor: str | None) -> None:
        """Finds out where the queues end, and whether the caller may read them.

        Raises:
            UsageError: the cursor is none.
            UnknownTopicError: no broker has the topic.
            ResponseError: a broker refuses the caller, or the condition.
        """
        ends, problems = await self._ends.now()
        brokers: dict[str, MessageQueue] = {}
        for queue in ends:
            brokers.setdefault(queue.broker_name, queue)
        for queue in brokers.values():
            await self._reader.pull(queue, ends[queue], 1, expression=self._wanted.expression)
        self._positions = Positions(self._topic, ends, cursor)
        self._first = TailBatch(messages=[], cursor=self._positions.cursor(), problems=problems)

    def stop(self) -> None:
        """Ends the tail at once, because the server has to stop."""
        self._is_stopped = True
        self._due.set()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Makes the events: batches, and a last one that says why there are no more."""
        yield event(self._first)
        clock, problems = self._clock, self._first.problems
        begin_s = beaten_s = clock.monotonic()
        while (left_s := begin_s + self._seconds - clock.monotonic()) > 0:
            await self._pause(min(PAUSE_S, left_s))
            if self._is_stopped:
                yield self._last("stop", "the console stops")
                return
            try:
                batch = await self._look()
            except UnknownTopicError:
                yield self._last("topic", f"there is no topic {self._topic} any more")
                return
            except (NoPermissionError, ProblemError) as e:
                yield self._last("refused", str(e))
                return
            if batch.arrived or batch.problems != problems:
                problems, beaten_s = batch.problems, clock.monotonic()
                yield event(batch)
            elif clock.monotonic() - beaten_s >= BEAT_S:
                beaten_s = clock.monotonic()
                yield BEAT
        yield self._last("time", f"a tail goes on for {self._seconds:g} s")

    def _last(self, ended: Ended, why: str) -> bytes:
        cursor = self._positions.cursor()
        return event(TailBatch(messages=[], cursor=cursor, ended=ended, why=why))

    async def _pause(self, seconds: float) -> None:
        """Waits for the next look, or until the tail is to stop."""
        if not self._is_stopped:
            self._due.clear()
            timer = self._clock.call_later(seconds, self._due.set)
            try:
                await self._due.wait()
            finally:
                timer.cancel()

    async def _look(self) -> TailBatch:
        ends, problems = await self._ends.now()
        arrived = self._positions.move(ends)
        self._turn += 1  # where more fits than is shown, another queue begins each time
        place = self._turn % max(len(arrived), 1)
        arrived = arrived[place:] + arrived[:place]
        found, looked_at = await self._pull(arrived, problems)
        count = sum(each.size for each in arrived)
        return TailBatch(
            messages=[self._shown(message) for message in found],
            arrived=count,
            not_shown=count - looked_at,
            not_fitting=looked_at - len(found),
            cursor=self._positions.cursor(),
            problems=problems,
        )

    async def _pull(
        self, arrived: list[Arrived], problems: list[str]
    ) -> tuple[list[ReceivedMessage], int]:
        """Pulls what is shown, and tells how many messages brokers have looked at for it."""
        wanted = self._wanted
        looked_at_max = wanted.limit if wanted.is_everything else LOOKED_AT_MAX
        found: list[ReceivedMessage] = []
        looked_at = size = 0
        for each, share in zip(
            arrived, shares([one.size for one in arrived], looked_at_max), strict=True
        ):
            begin = offset = each.end - share
            for _ in range(PULLS_MAX):
                left = wanted.limit - len(found)
                if offset >= each.end or left < 1 or size > BATCH_SIZE_MAX:
                    break
                try:
                    result = await self._reader.pull(
                        each.queue, offset, min(left, each.end - offset),
                        expression=wanted.expression,
                    )  # fmt: skip
                except NoPermissionError:
                    raise
                except PocketMQError as e:
                    problems.append(str(e))
                    break
                fresh = [m for m in result.messages if m.queue_offset < each.end]
                if result.next_offset <= offset:
                    break
                offset = min(result.next_offset, each.end)
                found += [m for m in fresh if wanted.tag in (None, m.tags)]
                size += sum(len(m.body) for m in fresh)
            looked_at += offset - begin
        return sorted(found, key=_place), looked_at

    def _shown(self, message: ReceivedMessage) -> TailMessage:
        body, is_cut = message.body, False
        text = None
        if self._wanted.bodies:
            text, is_cut = beginning(body)
        return TailMessage(
            broker=message.broker_name,
            queue=message.queue_id,
            offset=message.queue_offset,
            msg_id=message.msg_id,
            stored_ms=message.store_timestamp,
            keys=" ".join(message.keys)[:SHOWN_KEYS],
            tag=message.tags and message.tags[:SHOWN_KEYS],
            size=len(body),
            body=text,
            is_cut=is_cut,
        )


def _place(message: ReceivedMessage) -> tuple[int, str, int, int]:
    return message.store_timestamp, message.broker_name, message.queue_id, message.queue_offset


def beginning(body: bytes) -> tuple[str | None, bool]:
    """Returns the beginning of a body as text, or None if it is none, and whether it goes on."""
    head = body[: 4 * SHOWN_CHARACTERS]  # a character of UTF-8 has four bytes at the most
    try:
        text = decoder().decode(head, final=len(head) == len(body))
    except UnicodeDecodeError:
        return None, False
    return text[:SHOWN_CHARACTERS], len(text) > SHOWN_CHARACTERS or len(head) < len(body)
