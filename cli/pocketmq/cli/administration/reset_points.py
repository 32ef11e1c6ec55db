"""What the words of `pocketmq group reset` mean: where to, and which queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from typing_extensions import TypedDict

from pocketmq.cli.times import timestamp_ms_of
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue


class ResetPoint(TypedDict, total=False):
    """Where to, as `Admin.reset_offsets` takes it; one of the three."""

    to: Literal["earliest", "latest"]
    offset: int
    timestamp_ms: int


def reset_point(text: str) -> ResetPoint:
    """Reads ``earliest``, ``latest``, an offset, or a time in ISO 8601.

    Raises:
        UsageError: it is none of them.
    """
    if text == "earliest":
        return {"to": "earliest"}
    if text == "latest":
        return {"to": "latest"}
    if text.isascii() and text.isdecimal():
        return {"offset": int(text)}
    return {"timestamp_ms": timestamp_ms_of("--to", text, "earliest, latest, an offset, or ")}


def queues_named(topic: str, brokers: Iterable[str], texts: Iterable[str]) -> list[MessageQueue]:
    """The queues that ``BROKER:ID`` or, where the topic has one broker, ``ID`` stand for.

    Args:
        topic: whose queues.
        brokers: that have the topic.
        texts: what people wrote.

    Raises:
        UsageError: one of the texts is neither.
    """
    known = sorted(set(brokers))
    queues = []
    for text in texts:
        broker, separator, queue_id = text.rpartition(":")
        if not separator and len(known) == 1:
            broker = known[0]
        if broker not in known or not (queue_id.isascii() and queue_id.isdecimal()):
            raise UsageError(
                f"--queue is {text!r}: it must be BROKER:ID with one of the brokers "
                f"{', '.join(known)}"
            )
        queues.append(MessageQueue(topic, broker, int(queue_id)))
    return queues
