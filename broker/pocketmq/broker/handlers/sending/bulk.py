"""PocketMQ's bulk append, 31001: many ready-made records in one request.

The sender has encoded the records as they are stored, all with IPv4 hosts; what only the broker
knows is filled in for all of them at once: queue offsets, positions, store time and store host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from importlib import import_module

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.handlers.sending.answers import answer_when_stored
from pocketmq.broker.handlers.sending.send_checks import SendSettings
from pocketmq.broker.refusals import (
    no_permission,
    queue_illegal,
    topic_missing,
    unavailable,
)
from pocketmq.broker.store.disk.errors import StoreError
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol import flags
from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.messages.hosts import IPV4_HOST_SIZE
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import BulkAppendRequest, BulkAppendResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.live import Live
from pocketmq.transport.connection import Connection, Handler, Reply
from pocketmq.transport.reading_state import Hold

AT_ONCE_SIZE_MAX = 256 * 1024
"""Requests up to this size are handled at once, larger ones in several steps of a task."""

UNDER_CHECK_SIZE_MAX = 64 * 1024 * 1024
"""While tasks check requests of so many bytes together, further requests are handled at once, too:
each request is held in memory until its records are stored."""


class BulkHandlers:
    """Appends ready-made records.

    Args:
        topics, store, appender, clock: of the broker.
        store_host: the broker's encoded IPv4 address.
        settings: of sends.
    """

    def __init__(
        self,
        topics: TopicTable,
        store: MessageStore,
        appender: Appender,
        store_host: bytes,
        settings: Live[SendSettings],
        clock: Clock,
    ) -> None:
        self._topics, self._store, self._appender = topics, store, appender
        self._store_host, self._settings, self._clock = store_host, settings, clock
        self._checked_size = 0
        self._is_ready = False

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.BULK_APPEND: self.append}

    def append(self, command: Command, connection: Connection) -> Reply:
        """31001: all records are stored, one after the other, or none."""
        request = command.read(BulkAppendRequest)
        self._check_queue(request, connection)
        is_small = len(command.body) <= AT_ONCE_SIZE_MAX
        if (is_small and self._is_ready) or self._checked_size >= UNDER_CHECK_SIZE_MAX:
            for _ in self._appending(command, request, connection):
                pass
            return None
        connection.hold_reading(Hold.BULK_APPEND)  # at once: what came behind it waits for it
        return self._append_in_turns(command, request, connection)

    async def _append_in_turns(
        self, command: Command, request: BulkAppendRequest, connection: Connection
    ) -> None:
        """Appends like `append`, but lets other tasks run between portions of the records."""
        size = len(command.body)
        self._checked_size += size
        try:
            if not self._is_ready:
                # It brings in numpy, which would hold the loop up for some 0.1 s.
                await asyncio.to_thread(import_module, "pocketmq.broker.appending.bulk_records")
                self._is_ready = True
            for _ in self._appending(command, request, connection):
                await self._clock.sleep(0)
        finally:
            connection.release_reading(Hold.BULK_APPEND)
            self._checked_size -= size

    def _appending(
        self, command: Command, request: BulkAppendRequest, connection: Connection
    ) -> Iterator[None]:
        """Checks the records portion by portion, then appends all of them at once."""
        from pocketmq.broker.appending.bulk_records import check_bulk, complete_records

        layout = yield from check_bulk(command.body, request, self._settings.now.body_size_max)
        self._check_queue(request, connection)  # it may have changed meanwhile
        try:
            queue_log = self._store.queue_log(request.topic, request.queue_id)
        except StoreError as e:
            raise unavailable(str(e)) from e
        first = queue_log.next_offset
        count = len(layout.starts)
        stamp = self._store.store_time(queue_log)
        records, entries = complete_records(layout, queue_log, stamp, self._store_host)

        header = BulkAppendResponse(queue_offset=first, count=count)
        on_stored = answer_when_stored(command, connection, header)
        self._appender.append_records(queue_log, records, entries, count, on_stored)

    def _check_queue(self, request: BulkAppendRequest, connection: Connection) -> None:
        """Raises unless the queue may be appended to now."""
        topic = self._topics.get(request.topic)
        if topic is None:
            raise topic_missing(request.topic)
        if request.topic in names.SEND_FORBIDDEN_TOPICS:
            raise no_permission(f"Sending message to topic[{request.topic}] is forbidden.")
        permission = self._settings.now.permission
        if not permission & flags.PERM_WRITE:
            raise no_permission(f"the broker's brokerPermission is {permission}")
        if self._store.refusal is not None:
            raise unavailable(self._store.refusal)
        if not 0 <= request.queue_id < topic.queue_nums_max:
            raise queue_illegal(request.queue_id, topic, "write", connection.remote_address)
        if len(self._store_host) != IPV4_HOST_SIZE:
            raise unavailable("bulk appends need a broker with an IPv4 address: set brokerIP1")
