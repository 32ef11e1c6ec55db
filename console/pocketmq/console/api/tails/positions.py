"""Up to which offset a tail has counted each queue of its topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from pocketmq.client import MessageQueue
from pocketmq.protocol.errors import UsageError

QUEUES_OF_CURSOR_MAX = 64
"""Queues that a cursor names at the most: a cursor has to fit into a URL."""


class Arrived(NamedTuple):
    """Messages of a queue that have come: offsets from `begin` to before `end`."""

    queue: MessageQueue
    begin: int
    end: int

    @property
    def size(self) -> int:
        """How many these are."""
        return self.end - self.begin


class Positions:
    """Counts what comes to the queues of a topic.

    Args:
        topic: its name.
        ends: where the queues end; what comes from then on counts.
        cursor: counts from there on instead.

    Raises:
        UsageError: the cursor is none.
    """

    def __init__(self, topic: str, ends: Mapping[MessageQueue, int], cursor: str | None) -> None:
        self._ends = dict(ends)
        self._brokers = {queue.broker_name for queue in ends}
        for queue, offset in _decode(topic, cursor) if cursor else ():
            if queue in ends:
                self._ends[queue] = min(offset, ends[queue])

    def move(self, ends: Mapping[MessageQueue, int]) -> list[Arrived]:
        """Takes over where queues end now; returns what has come to them.

        A queue that is new begins at 0, unless its broker did not answer before. One that ends
        before its position was made anew.
        """
        arrived = []
        for queue, end in ends.items():
            begin = self._ends.get(queue, 0 if queue.broker_name in self._brokers else end)
            if end > begin:
                arrived.append(Arrived(queue, begin, end))
            self._ends[queue] = end
        self._brokers.update(queue.broker_name for queue in ends)
        return arrived

    def cursor(self) -> str | None:
        """Where another tail may go on; None if the topic has too many queues for that."""
        if len(self._ends) > QUEUES_OF_CURSOR_MAX:
            return None
        places = [(q.broker_name, q.queue_id, end) for q, end in sorted(self._ends.items())]
        return msgspec.json.encode(places).decode()


def _decode(topic: str, cursor: str) -> list[tuple[MessageQueue, int]]:
    try:
        places = msgspec.json.decode(cursor, type=list[tuple[str, int, int]])
    except msgspec.MsgspecError as e:
        raise UsageError(f"the cursor is not of a tail of this API: {e}") from e
    return [
        (MessageQueue(topic, broker, queue), max(offset, 0)) for broker, queue, offset in places
    ]


def shares(counts: list[int], total: int) -> list[int]:
    """Divides a total among queues, evenly, none more than it has; the sum is at most the total."""
    given = [0] * len(counts)
    left, open_ones = total, sorted(range(len(counts)), key=counts.__getitem__)
    while open_ones and left:
        share = max(left // len(open_ones), 1)
        place = open_ones.pop(0)
        given[place] = min(counts[place], share)
        left -= given[place]
    return given
