"""Client batches of very many messages: handled in portions, between which others have their turns.

They are stored all or none, one behind the other, like those of short batches.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.batches import stored_batch
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.handlers.sending.send_checks import (
    check_batch,
    check_batch_request,
    durability_of,
)
from pocketmq.broker.handlers.sending.send_targets import SendTargets
from pocketmq.broker.refusals import does_not_fit
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.messages.batch import batch_portions
from pocketmq.protocol.messages.ids import offset_msg_ids_at
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, Reply
from pocketmq.transport.reading_state import Hold

if TYPE_CHECKING:  # it brings in numpy
    from pocketmq.broker.appending.bulk_records import RecordLayout

COUNT_UNKNOWN_SIZE_MAX = 8 * 1024
"""Bytes of a batch whose messages nobody counts: there cannot be many."""

AT_ONCE_COUNT_MAX = 1_500
"""Messages of a batch that is handled at once, in some 5 ms."""

COUNT_PER_TURN_MAX = 6_000
"""Messages of larger batches that are handled at once in a turn of the loop, in some 20 ms."""

PORTION_SIZE = 32 * 1024
"""Bytes of a batch that are handled together: up to 1,500 messages."""

LONG_SIZE_MAX = 64 * 1024 * 1024
"""Bytes of the long batches that wait together; further ones are refused as too much (2)."""

Messages = list[tuple[int, bytes, bytes]]


class Beginning(NamedTuple):
    """A log end that is not known yet: records are counted from the first one of their batch."""

    queue_id: int
    next_position: int
    next_offset: int = 0
    number: int = 0


class LongBatches:
    """Decodes batches as far as they may be handled at once, and stores those that may not.

    One batch is handled at a time: its messages take ten times the room of its bytes.

    Args:
        targets, answers, appender, store, clock: of the broker.
        store_host: the broker's encoded address.

    Attributes:
        share: counts the messages of a turn.
    """

    def __init__(
        self,
        targets: SendTargets,
        answers: SendAnswers,
        appender: Appender,
        store: MessageStore,
        store_host: bytes,
        clock: Clock,
    ) -> None:
        self._targets, self._answers, self._appender = targets, answers, appender
        self._store, self._store_host, self._clock = store, store_host, clock
        self.share = WorkShare(COUNT_PER_TURN_MAX)
        self._one_at_a_time = asyncio.Lock()
        self._size = 0
        self._is_ready = False

    def begin(self, body: bytes) -> tuple[deque[Messages], Iterator[Messages] | None]:
        """Decodes a batch, or the first messages of a long one.

        Returns:
            Portions of messages, at least one, and what decodes further ones; None for a batch that
            is not long.

        Raises:
            ContentError: as `decode_batch`.
        """
        rest = batch_portions(body, PORTION_SIZE)
        portions: deque[Messages] = deque()
        count = 0
        for portion in rest:
            portions.append(portion)
            count += len(portion)
            if count > AT_ONCE_COUNT_MAX:
                return portions, rest
        self.share.took(count)
        return portions, None

    def store(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        portions: deque[Messages],
        rest: Iterator[Messages],
    ) -> Reply:
        """Stores a long batch that `begin` has begun; reads nothing of its sender meanwhile.

        Raises:
            ResponseError: 2, too much waits.
        """
        size = len(command.body)
        if self._size and self._size + size > LONG_SIZE_MAX:
            raise response_error(
                ResponseCode.SYSTEM_BUSY,
                f"batches of {AT_ONCE_COUNT_MAX} messages or more wait with {self._size} bytes: "
                f"send again later, or send batches of fewer messages",
            )
        connection.hold_reading(Hold.BULK_APPEND)  # at once: what came behind it waits for it
        self._size += size
        return self._store_in_portions(command, request, connection, portions, rest)

    async def _store_in_portions(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        portions: deque[Messages],
        rest: Iterator[Messages],
    ) -> None:
        try:
            async with self._one_at_a_time:
                if not self._is_ready:  # it brings in numpy, which would hold the loop up
                    await asyncio.to_thread(import_module, "pocketmq.broker.appending.bulk_records")
                    self._is_ready = True
                for portion in rest:
                    portions.append(portion)
                    await self._clock.sleep(0)
                await self._store_decoded(command, request, connection, portions)
        finally:
            connection.release_reading(Hold.BULK_APPEND)
            self._size -= len(command.body)

    async def _store_decoded(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        portions: deque[Messages],
    ) -> None:
        """Checks all messages, encodes all for a log end that is not known yet, then appends."""
        from pocketmq.broker.appending.bulk_records import layout_of

        count = 0
        for portion in portions:
            check_batch(portion, count)
            count += len(portion)
            await self._clock.sleep(0)
        queue_id = self._targets.log_for(request, connection).queue_id
        check_batch_request(request)
        records, entries = bytearray(), bytearray()
        while portions:
            try:
                batch = stored_batch(
                    portions.popleft(),
                    Beginning(queue_id, len(records)),
                    topic=request.topic.encode(),
                    sys_flag=request.sys_flag,
                    born_timestamp=request.born_timestamp,
                    born_host=connection.remote_host,
                    store_timestamp=0,
                    store_host=self._store_host,
                    reconsume_times=request.reconsume_times or 0,
                )
            except struct.error as e:
                raise does_not_fit(e) from e
            records += batch.records
            entries += batch.entries
            await self._clock.sleep(0)
        layout = layout_of(records, entries)
        await self._clock.sleep(0)
        self._append(command, request, connection, queue_id, layout)

    def _append(
        self,
        command: Command,
        request: SendMessageRequest,
        connection: Connection,
        queue_id: int,
        layout: RecordLayout,
    ) -> None:
        """Appends the records at the end of the log as it is now."""
        from pocketmq.broker.appending.bulk_records import complete_records, places_in

        # The topic may have changed meanwhile; the queue may be one that was drawn.
        request = msgspec.structs.replace(request, queue_id=queue_id)
        queue_log = self._targets.log_for(request, connection)
        stored, index = complete_records(
            layout, queue_log, self._store.store_time(queue_log), self._store_host,
            len(connection.remote_host),
        )  # fmt: skip
        on_stored = partial(
            self._answers.answer, command, connection,
            offset_msg_ids_at(self._store_host, places_in(index)), queue_id,
            queue_log.next_offset, None, None,
        )  # fmt: skip
        self._appender.append_records(
            queue_log, stored, index, len(layout.starts), on_stored,
            durability_of(request.properties or ""),
        )  # fmt: skip
