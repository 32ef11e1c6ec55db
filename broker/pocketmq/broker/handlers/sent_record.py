"""A message as it was sent, as the next record of a log."""

from __future__ import annotations

import struct

from pocketmq.broker.handlers.send_checks import does_not_fit
from pocketmq.broker.store.queue_log import QueueLog
from pocketmq.protocol.command import Command
from pocketmq.protocol.records import encode_record
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.transport.connection import Connection


def sent_record(
    command: Command,
    request: SendMessageRequest,
    connection: Connection,
    queue_log: QueueLog,
    sys_flag: int,
    properties: bytes,
    store_timestamp: int,
    store_host: bytes,
    own_field: int = 0,
) -> bytes:
    """The record of a send.

    Args:
        command, request, connection: how the message came.
        queue_log: where it goes.
        sys_flag, properties: as they are stored.
        store_timestamp: milliseconds since the epoch.
        store_host: the broker's encoded address.
        own_field: see `store.tags`.

    Raises:
        ResponseError: a number does not fit.
    """
    try:
        return encode_record(
            topic=queue_log.topic.encode(),
            queue_id=queue_log.queue_id,
            flag=request.flag,
            queue_offset=queue_log.next_offset,
            physical_offset=queue_log.next_physical_offset,
            sys_flag=sys_flag,
            born_timestamp=request.born_timestamp,
            born_host=connection.remote_host,
            store_timestamp=store_timestamp,
            store_host=store_host,
            reconsume_times=request.reconsume_times or 0,
            prepared_transaction_offset=own_field,
            body=command.body,
            properties=properties,
        )
    except struct.error as e:
        raise does_not_fit(e) from e
