"""The results of redrives: messages of a topic of the broker's own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import StoredMessage, new_message, stored_in
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.log.queue_log import WRITTEN, QueueLog
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.redrives import LetterResult, ResultPage, ResultRecord
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import ContentError, OperatingError
from pocketmq.protocol.flags import PERM_READ
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.names.names import REDRIVE_TOPIC
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.slices import next_slice

RESULTS_PER_PAGE = 1000
"""Results after which a page ends."""

RECORDS_PER_PAGE = 4096
"""Records that a page looks at, those of other redrives among them."""

RECORDS_PER_SLICE = 64
SIZE_PER_SLICE = 1024 * 1024


class Results:
    """Writes and reads what became of dead letters in redrives.

    Results stay as long as messages do (fileReservedTime).

    Args:
        store, topics, appender: of the broker.
        store_host: the broker's encoded address.
        clock: dates the records.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: TopicTable,
        appender: Appender,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._store, self._topics, self._appender = store, topics, appender
        self._host, self._clock = store_host, clock

    @property
    def end(self) -> int:
        """Where the next record will be."""
        queue_log = self._store.find_log(REDRIVE_TOPIC, 0)
        return 0 if queue_log is None else queue_log.max_offset

    async def write(self, redrive_id: str, results: Sequence[LetterResult]) -> QueueLog:
        """Appends results; returns the log that they are in.

        Raises:
            StoreError: they are not written.
        """
        if REDRIVE_TOPIC not in self._topics:
            self._topics.put(
                TopicConfig(
                    topic_name=REDRIVE_TOPIC, read_queue_nums=1, write_queue_nums=1, perm=PERM_READ
                )
            )
        body = ResultRecord(redrive_id=redrive_id, results=list(results)).encode()
        keys = props.encode({props.KEYS: redrive_id}).encode()
        message = new_message(self._clock.now_ms(), self._host, self._host, body, keys)
        queue_log = self._store.queue_log(REDRIVE_TOPIC, 0)
        await stored(self._appender, queue_log, message)
        return queue_log

    async def page(self, redrive_id: str, begin: int) -> ResultPage:
        """Reads results of a redrive.

        Args:
            redrive_id: whose.
            begin: the first record to look at.

        Raises:
            OSError, StoreError: the disk cannot be read now.
        """
        queue_log = self._store.find_log(REDRIVE_TOPIC, 0)
        if queue_log is None:
            return ResultPage()
        page = ResultPage()
        offset, looked_at = max(begin, queue_log.min_offset), 0
        while offset < queue_log.max_offset:
            if len(page.results) >= RESULTS_PER_PAGE or looked_at >= RECORDS_PER_PAGE:
                page.next = offset
                return page
            part = queue_log.read(offset, RECORDS_PER_SLICE, SIZE_PER_SLICE)
            following = offset
            for message in stored_in(part, offset):
                following = message.queue_offset + 1
                if props.value_of(message.text, props.KEYS) == redrive_id:
                    page.results += _results_in(message.body)
            looked_at += part.next_offset - offset
            offset = following if following == part.next_offset else following + 1
            await next_slice(self._clock.machine)
        return page


async def stored(appender: Appender, queue_log: QueueLog, message: StoredMessage) -> None:
    """Appends a message and waits until it is written.

    Raises:
        StoreError: it is not.
    """
    done: asyncio.Future[OperatingError | None] = asyncio.get_running_loop().create_future()

    def on_stored(error: OperatingError | None) -> None:
        if not done.done():
            done.set_result(error)

    appender.append_message(queue_log, message, on_stored, WRITTEN)
    error = await done
    if not is_stored(error):
        raise StoreError(str(error))


def _results_in(body: bytes) -> list[LetterResult]:
    try:
        return ResultRecord.decode(bytes(body)).results
    except ContentError:
        return []  # not written by a redrive
