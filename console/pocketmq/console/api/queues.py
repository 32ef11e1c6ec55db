"""The names of queues in requests."""

from __future__ import annotations

from pocketmq.client import MessageQueue
from pocketmq.protocol.errors import UsageError


def queue_named(topic: str, text: str) -> MessageQueue:
    """Reads the name of a queue, ``broker-a:3``.

    Raises:
        UsageError: it is none.
    """
    broker, separator, number = text.rpartition(":")
    if not separator or not broker or not number.isdigit():
        raise UsageError(f"{text!r} is no queue: write the broker and the number, as broker-a:3")
    return MessageQueue(topic, broker, int(number))
