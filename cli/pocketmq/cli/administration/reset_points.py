"""Reads the arguments of `pocketmq group reset`: the new offsets and the queues."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypedDict

from pocketmq.cli.times import timestamp_ms_of
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import MessageQueue


class ResetPoint(TypedDict, total=False):
    """The argument of `Admin.reset_offsets` for the new offsets; one of the three keys."""

    to: Literal["earliest", "latest"]
    offset: int
    timestamp_ms: int


def reset_point(text: str) -> ResetPoint:
    """Reads ``earliest``, ``latest``, an offset, or a time in ISO 8601.

    Raises:
        UsageError: the text is none of these.
    """
    if text == "earliest":
        return {"to": "earliest"}
    if text == "latest":
        return {"to": "latest"}
    if text.isascii() and text.isdecimal():
        return {"offset": int(text)}
    return {"timestamp_ms": timestamp_ms_of("--to", text, "earliest, latest, an offset, or ")}


def queues_named(topic: str, brokers: Iterable[str], texts: Iterable[str]) -> list[MessageQueue]:
    """Reads queues written as ``BROKER:ID`` or, if the topic has one broker, as ``ID``.

    Args:
        topic: the topic of the queues.
        brokers: the brokers that have the topic.
        texts: the queues as written.

    Raises:
        UsageError: a text has neither form.
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
