"""Messages as JSON lines, as `pocketmq produce` reads them back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from pocketmq.client import PullConsumer
from pocketmq.console.api.bodies.messages import BrowseQuery
from pocketmq.console.api.finding.bodies import DOWNLOADED_MAX, DownloadQuery
from pocketmq.console.api.finding.browsing import LATEST, Found, browse
from pocketmq.console.api.finding.conditions import Condition
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import message_line
from pocketmq.runtime.clock import Clock

SIZE_MAX = 1024 * 1024 * 1024
"""Bytes of one download."""

TIMEOUT_S = 600.0
"""Seconds that one download may look through messages."""

LOOK_LIMIT, LOOK_SCAN, LOOK_S = 500, 10_000, 5.0
"""Messages, messages to look at, and seconds, of each of the looks of which a download consists."""

PART_SIZE = 64 * 1024
"""Bytes that are sent at a time, and one message more."""


class DownloadCutError(OperatingError):
    """A download was given up: its client sees that the answer has broken off."""


class Download:
    """The lines of the messages that a request wants, as many as it says or all that fit.

    An answer that ends as it should is complete; one that takes too long or becomes too large
    breaks off, so that nobody takes a part for the whole.

    Args:
        reader: of the caller.
        topic: whose messages.
        query: which of these.
        condition: the same.
        clock: bounds the time.
    """

    def __init__(
        self,
        reader: PullConsumer,
        topic: str,
        query: DownloadQuery,
        condition: Condition,
        clock: Clock,
    ) -> None:
        self._reader, self._topic, self._clock = reader, topic, clock
        self._query, self._condition = query, condition
        self._until_s = clock.stopwatch() + TIMEOUT_S
        self._left, self._size = query.limit, 0
        self._found: Found

    async def begin(self) -> None:
        """Looks for the first messages, so that a request that cannot be carried out is refused.

        Raises:
            UsageError: the query does not fit.
            UnknownTopicError: no broker has the topic.
            ProblemError: 400, one look is not enough for the newest messages.
        """
        self._found = await self._look(self._query.cursor)
        if self._is_of_newest and self._found.cursor is not None:
            raise ProblemError(
                400,
                "There are too many messages",
                f"the newest messages of {self._topic} were not found: a look of {LOOK_S:g} s at "
                f"{LOOK_SCAN} messages has not come to the end of all queues",
                "name one queue, a smaller limit, or start at a time",
            )

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Makes the lines, several at a time.

        Raises:
            DownloadCutError: it takes too long, or is too large.
        """
        while True:
            found = self._found
            self._left -= len(found.messages)
            for part in self._parts(found.messages):
                yield part
            if found.cursor is None or not self._left:
                return
            if self._clock.stopwatch() >= self._until_s:
                raise DownloadCutError(
                    f"a download of {self._topic} has taken {TIMEOUT_S:g} s, and ends unfinished"
                )
            self._found = await self._look(found.cursor)

    @property
    def _is_of_newest(self) -> bool:
        return self._query.start == LATEST and self._query.cursor is None

    async def _look(self, cursor: str | None) -> Found:
        query = self._query
        look = BrowseQuery(
            queue=query.queue,
            start=query.start,
            cursor=cursor,
            before=query.before,
            limit=min(self._left, LOOK_LIMIT),
            scan=LOOK_SCAN,
            seconds=LOOK_S,
        )
        return await browse(self._reader, self._topic, look, self._condition, self._clock)

    def _parts(self, messages: Iterable[ReceivedMessage]) -> Iterable[bytes]:
        part = bytearray()
        for message in messages:
            part += message_line(message) + b"\n"
            if len(part) >= PART_SIZE:
                yield self._counted(part)
                part = bytearray()
        if part:
            yield self._counted(part)

    def _counted(self, part: bytearray) -> bytes:
        self._size += len(part)
        if self._size > SIZE_MAX:
            raise DownloadCutError(
                f"a download of {self._topic} has more than {SIZE_MAX} bytes, and ends unfinished"
            )
        return bytes(part)


def check_download(query: DownloadQuery) -> None:
    """Refuses what no download can keep.

    Raises:
        ProblemError: 400, more of the newest messages than one look finds.
    """
    if query.start == LATEST and query.cursor is None and query.limit > LOOK_LIMIT:
        raise ProblemError(
            400,
            "The request does not fit",
            f"start=latest gives up to {LOOK_LIMIT} messages, and the limit is {query.limit}",
            f"start elsewhere for up to {DOWNLOADED_MAX} messages: at earliest, or at a time",
        )
