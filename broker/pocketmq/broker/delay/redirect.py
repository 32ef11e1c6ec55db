"""Describes where a message waits that is to be delivered later."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.store.log.queue_log import QueueLog


class Redirect(NamedTuple):
    """The log in which a delayed message waits, and what is different in its record there.

    Attributes:
        queue_log: of a delay level, or of the timers.
        store_ms: store time of the record, in milliseconds since the epoch.
        deliver_ms: when the message is due, likewise; negated for the recall of a timer.
        properties: encoded; they name the topic and the queue that the message is for.
        topic: the same topic.
        delay_ms: how long a timer message waits.
    """

    queue_log: QueueLog
    store_ms: int
    deliver_ms: int
    properties: str
    topic: str
    delay_ms: int = 0
