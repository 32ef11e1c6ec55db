"""Received messages for tests."""

from __future__ import annotations

from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.records import decode_records, encode_record

HOST = bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F))


def record(
    offset: int,
    body: bytes = b"x",
    *,
    topic: str = "T",
    queue_id: int = 0,
    properties: bytes = b"",
    reconsume_times: int = 0,
) -> bytes:
    """A stored record."""
    return encode_record(
        topic=topic.encode(),
        queue_id=queue_id,
        flag=0,
        queue_offset=offset,
        physical_offset=offset * 100,
        sys_flag=0,
        born_timestamp=0,
        born_host=HOST,
        store_timestamp=0,
        store_host=HOST,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=0,
        body=body,
        properties=properties,
    )


def received(offset: int, body: bytes = b"x", *, topic: str = "T") -> ReceivedMessage:
    """A message as a pull brings it."""
    return next(decode_records(record(offset, body, topic=topic), "a"))
