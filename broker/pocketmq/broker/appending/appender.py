"""The one way into the queue logs: encodes messages for their place and schedules the commit."""

from __future__ import annotations

import struct

from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.refusals import does_not_fit
from pocketmq.broker.store.disk.errors import NotReplicatedError, StoreError
from pocketmq.broker.store.log.queue_log import (
    AS_CONFIGURED,
    Durability,
    OnStored,
    QueueLog,
    Waiter,
)
from pocketmq.broker.store.log.tags import WAITING_TOPICS, encoded_tags_code
from pocketmq.broker.store.store import MessageStore
from pocketmq.broker.store.writing.flusher import FlushTimeoutError
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.messages.records import record_parts
from pocketmq.protocol.requests.sending import SendMessageRequest

LARGE_BODY_SIZE = 32 * 1024
"""From this size on a body is not copied into its record, but written beside its other parts."""


class Appender:
    """Appends messages to queue logs; the next commit writes them and calls `on_stored` once.

    `on_stored` gets None when the record is as safe as `durability` asks for, and else the error;
    `is_stored` says which errors leave the record in the log.

    Args:
        store: of the broker.
    """

    def __init__(self, store: MessageStore) -> None:
        self._store_time, self._schedule_commit = store.store_time, store.schedule_commit

    def append_sent(
        self,
        queue_log: QueueLog,
        physical_offset: int,
        request: SendMessageRequest,
        body: bytes,
        born_host: bytes,
        sys_flag: int,
        properties: bytes,
        tags_code: int,
        store_host: bytes,
        on_stored: OnStored,
        durability: Durability,
        store_ms: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> None:
        """Appends a message as its sender's request describes it.

        Args:
            queue_log, physical_offset: the log, and where its next record stands.
            request, body, born_host: what was sent, and the sender's encoded address.
            sys_flag, properties, tags_code: as they are stored.
            store_host: the broker's encoded address.
            on_stored, durability: see the class.
            store_ms: the store time in milliseconds, if the caller has fixed it already.
            prepared_transaction_offset: see `store.log.tags`.

        Raises:
            ResponseError: 13, a number does not fit into a record.
        """
        try:
            # By position: names would cost a tenth of what encoding takes.
            parts = record_parts(
                queue_log.topic.encode(), queue_log.queue_id, request.flag, queue_log.next_offset,
                physical_offset, sys_flag, request.born_timestamp, born_host,
                store_ms or self._store_time(queue_log), store_host, request.reconsume_times or 0,
                prepared_transaction_offset, body, properties,
            )  # fmt: skip
        except struct.error as e:
            raise does_not_fit(e) from e
        waiter = Waiter(on_stored, durability)
        if len(body) < LARGE_BODY_SIZE:
            queue_log.append(b"".join(parts), tags_code, waiter)
        else:
            queue_log.append_parts(parts, tags_code, waiter)
        self._schedule_commit(queue_log)

    def append_message(
        self,
        queue_log: QueueLog,
        message: StoredMessage,
        on_stored: OnStored,
        durability: Durability = AS_CONFIGURED,
        *,
        store_ms: int = 0,
        prepared_transaction_offset: int = 0,
    ) -> None:
        """Appends a message that was stored before, or that the broker makes itself.

        Args:
            queue_log: the log; topic, queue and places of the message are set for it.
            message: everything else.
            on_stored, durability, store_ms, prepared_transaction_offset: as in `append_sent`.

        Raises:
            StoreError: a number does not fit into a record.
        """
        try:
            record = message.record_for(
                queue_log, store_ms or self._store_time(queue_log), prepared_transaction_offset
            )
        except struct.error as e:
            raise StoreError(str(e)) from e
        if queue_log.topic.encode() in WAITING_TOPICS:
            code = prepared_transaction_offset
        else:
            code = encoded_tags_code(message.properties)
        queue_log.append(record, code, Waiter(on_stored, durability))
        self._schedule_commit(queue_log)

    def append_records(
        self,
        queue_log: QueueLog,
        records: bytes | memoryview,
        entries: bytes,
        count: int,
        on_stored: OnStored,
        durability: Durability = AS_CONFIGURED,
    ) -> None:
        """Appends records that are encoded for the log's end already.

        Args:
            queue_log: the log.
            records, entries, count: back to back, with their index entries, and how many.
            on_stored, durability: see the class.
        """
        queue_log.append_many(records, entries, count, Waiter(on_stored, durability))
        self._schedule_commit(queue_log)


def is_stored(error: OperatingError | None) -> bool:
    """Whether the record of an append is in its log: it is if only others took too long."""
    return error is None or isinstance(error, FlushTimeoutError | NotReplicatedError)
