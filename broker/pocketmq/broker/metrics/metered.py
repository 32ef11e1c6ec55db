"""The parts of a broker that also count, in place of those that do not.

What stands in the way of a send names its base class, where `super` would look for it.
"""

from __future__ import annotations

from typing import Any

from pocketmq.broker.appending.appender import Appender
from pocketmq.broker.appending.stored_message import StoredMessage
from pocketmq.broker.handlers.sending.answers import SendAnswers
from pocketmq.broker.store.log.queue_log import AS_CONFIGURED, Durability, OnStored, QueueLog
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.metrics.instruments import Histograms
from pocketmq.transport.connection import Connection

_SUCCESS = int(ResponseCode.SUCCESS)


class MeteredAppender(Appender):
    """An `Appender` that notes the size of each record.

    Args:
        store: of the broker.
        sizes: by topic.
    """

    def __init__(self, store: MessageStore, sizes: Histograms[str]) -> None:
        super().__init__(store)
        self._sizes = sizes

    def append_sent(
        self, queue_log: QueueLog, physical_offset: int, *args: Any, **kwargs: Any
    ) -> None:
        """Appends a message as its sender's request describes it."""
        Appender.append_sent(self, queue_log, physical_offset, *args, **kwargs)
        size = queue_log.next_physical_offset - physical_offset
        self._sizes[queue_log.topic].observe(size)

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
        """Appends a message that was stored before, or that the broker makes itself."""
        before = queue_log.next_physical_offset
        super().append_message(
            queue_log, message, on_stored, durability,
            store_ms=store_ms, prepared_transaction_offset=prepared_transaction_offset,
        )  # fmt: skip
        self._sizes[queue_log.topic].observe(queue_log.next_physical_offset - before)

    def append_records(
        self,
        queue_log: QueueLog,
        records: bytes | memoryview,
        entries: bytes,
        count: int,
        on_stored: OnStored,
        durability: Durability = AS_CONFIGURED,
    ) -> None:
        """Appends records that are encoded for the log's end already."""
        super().append_records(queue_log, records, entries, count, on_stored, durability)
        self._sizes[queue_log.topic].observe_all(
            [size for _, size, _ in ENTRY.iter_unpack(entries)]
        )


class MeteredSendAnswers(SendAnswers):
    """`SendAnswers` whose connections learn of the answers that they get as ready frames."""

    def answer(
        self,
        command: Command,
        connection: Connection,
        msg_id: str,
        queue_id: int,
        queue_offset: int,
        transaction_id: str | None,
        recall_handle: str | None,
        error: OperatingError | None,
    ) -> None:
        """Answers a send with where its message is, or why it is not stored."""
        SendAnswers.answer(
            self, command, connection, msg_id, queue_id, queue_offset, transaction_id,
            recall_handle, error,
        )  # fmt: skip
        if error is None:
            connection.answered(command, _SUCCESS)
