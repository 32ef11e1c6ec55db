"""A message as it was sent, as the next record of a log."""

from __future__ import annotations

import struct

from pocketmq.broker.handlers.sending.send_checks import does_not_fit
from pocketmq.broker.store.log.queue_log import QueueLog
from pocketmq.protocol.messages.records import encode_record
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection


def sent_record(
    command: Command,
    request: SendMessageRequest,
    connection: Connection,
    queue_log: QueueLog,
    place: int,
    sys_flag: int,
    properties: bytes,
    store_timestamp: int,
    store_host: bytes,
    prepared_transaction_offset: int = 0,
) -> bytes:
    """The record of a send.

    Args:
        command, request, connection: how the message came.
        queue_log, place: where it goes, and the physical offset that it gets there.
        sys_flag, properties: as they are stored.
        store_timestamp: milliseconds since the epoch.
        store_host: the broker's encoded address.
        prepared_transaction_offset: see `store.log.tags`.

    Raises:
        ResponseError: a number does not fit.
    """
    try:
        # By position: names would cost a tenth of what encoding takes.
        return encode_record(
            queue_log.topic.encode(), queue_log.queue_id, request.flag, queue_log.next_offset,
            place, sys_flag, request.born_timestamp, connection.remote_host, store_timestamp,
            store_host, request.reconsume_times or 0, prepared_transaction_offset, command.body,
            properties,
        )  # fmt: skip
    except struct.error as e:
        raise does_not_fit(e) from e
