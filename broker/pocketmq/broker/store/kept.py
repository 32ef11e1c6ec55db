"""What a topic says itself about how much of it is kept."""

from __future__ import annotations

from typing import NamedTuple


class Kept(NamedTuple):
    """How long, and how much, the messages of one topic are kept.

    Attributes:
        time_ms: after it was stored a message is kept so long; None is as long as the broker says.
        size: bytes of records of all the topic's queues on this broker; None is any number.
    """

    time_ms: int | None = None
    size: int | None = None
