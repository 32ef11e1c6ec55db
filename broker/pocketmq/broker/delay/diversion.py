"""Where a message goes that is to be delivered later."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.broker.store.log.queue_log import QueueLog


class Diversion(NamedTuple):
    """Where a delayed message waits: the log, its store time there and when it is due (both in
    milliseconds since the epoch; negated for the recall of a timer), and its properties.
    """

    queue_log: QueueLog
    store_ms: int
    deliver_ms: int
    properties: str
