"""Recall handles: each names a timer message (`common/producer/RecallMessageHandle`)."""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import NamedTuple

from pocketmq.protocol.errors import UsageError

VERSION = "v1"
TIME_UNREADABLE = -1

_BASE64 = re.compile(r"[A-Za-z0-9_-]+={0,2}")
_TIME = re.compile(r"-?[0-9]{1,18}")


class RecallHandle(NamedTuple):
    """The content of a recall handle: which timer message, and where it waits.

    Attributes:
        topic: that it was sent to.
        broker_name: of the broker that has it.
        timestamp_ms: in the second (RocketMQ's slot) after which it is delivered.
        unique_key: its `UNIQ_KEY`.
    """

    topic: str
    broker_name: str
    timestamp_ms: int
    unique_key: str

    def encode(self) -> str:
        """Encodes the handle as the text that clients get and give back."""
        text = f"{VERSION} {self.topic} {self.broker_name} {self.timestamp_ms} {self.unique_key}"
        return urlsafe_b64encode(text.encode()).decode()


def parse_recall_handle(text: str) -> RecallHandle:
    """Reads a handle; one with an unreadable time gets `TIME_UNREADABLE`.

    Raises:
        UsageError: it is none.
    """
    items: list[str] = []
    if _BASE64.fullmatch(text):
        try:
            bare = text.rstrip("=")
            raw = urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
        except binascii.Error:
            raw = b""
        items = raw.decode("utf-8", "replace").split(" ")
    if len(items) < 5 or items[0] != VERSION:
        raise UsageError(
            "recall handle is invalid: give the recallHandle of the answer with which the broker "
            "took the timer message"
        )
    time = int(items[3]) if _TIME.fullmatch(items[3]) else TIME_UNREADABLE
    return RecallHandle(items[1], items[2], time, items[4])
