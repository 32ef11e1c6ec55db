"""Receipt handles: where a delivered message is, and until when it is the consumer's alone."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.receipts import ReceiptHandle
from pocketmq.protocol.popped import topic_read
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.statuses import Refusal

HandleKey = tuple[str, str, str, int, int]
"""Group, real topic, broker name, queue id, offset."""


class Delivery(NamedTuple):
    """A handle that a client has sent.

    Attributes:
        group, topic: of the consumer, and the real topic of the message.
        handle: its parts.
        physical_offset: in the broker's store, the ninth part; None if the handle has none.
        text: as it came.
    """

    group: str
    topic: str
    handle: ReceiptHandle
    physical_offset: int | None
    text: str

    @property
    def key(self) -> HandleKey:
        """What names the message, whatever its times are."""
        handle = self.handle
        return self.group, self.topic, handle.broker_name, handle.queue_id, handle.queue_offset

    @property
    def expires_ms(self) -> int:
        """When others may get the message."""
        return self.handle.pop_time + self.handle.invisible_time

    def renewed(self, pop_time: int, invisible_ms: int) -> Delivery:
        """The delivery with another time."""
        handle = self.handle._replace(pop_time=pop_time, invisible_time=invisible_ms)
        text = encode(handle, self.physical_offset)
        return self._replace(handle=handle, text=text)


def encode(handle: ReceiptHandle, physical_offset: int | None) -> str:
    """Writes a handle with the physical offset of its message."""
    text = handle.encode()
    return text if physical_offset is None else f"{text} {physical_offset}"


def read(text: str, group: str, topic: str) -> Delivery:
    """Reads a handle.

    Args:
        text: of the handle.
        group, topic: that the client names beside it; the topic is the origin's.

    Raises:
        Refusal: INVALID_RECEIPT_HANDLE.
    """
    try:
        handle = ReceiptHandle.decode(text)
    except ContentError as e:
        raise Refusal(pb.INVALID_RECEIPT_HANDLE, f"Parse failed: {e}") from e
    topic = topic_read(handle.origin, group, topic)
    parts = text.split(" ")
    last = parts[8] if len(parts) > 8 else ""
    is_number = last.isascii() and last.isdecimal() and len(last) < 20
    return Delivery(group, topic, handle, int(last) if is_number else None, text)


def check_time(delivery: Delivery, now_ms: int) -> None:
    """Refuses a handle whose time is over.

    Raises:
        Refusal: INVALID_RECEIPT_HANDLE.
    """
    if delivery.expires_ms <= now_ms:
        raise Refusal(
            pb.INVALID_RECEIPT_HANDLE,
            f"receipt handle is expired: its message has been for others since "
            f"{now_ms - delivery.expires_ms} ms",
        )
