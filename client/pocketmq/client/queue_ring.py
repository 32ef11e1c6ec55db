"""The queues of a topic in the order in which a producer uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from pocketmq.protocol.messages.message import MessageQueue


class QueueRing:
    """Gives the queues that a topic can be sent to one after the other, over and over.

    Args:
        queues: in their order.
        start: the index to begin at, so that many clients do not all begin at the same queue.

    Attributes:
        queues: the same.
        broker_names: of the queues, each once.
    """

    __slots__ = ("_members", "broker_names", "index", "queues")

    def __init__(self, queues: Iterable[MessageQueue], start: int = 0) -> None:
        self.queues = tuple(queues)
        self._members = frozenset(self.queues)
        self.broker_names = tuple(dict.fromkeys(q.broker_name for q in self.queues))
        self.index = start
        """How often `next` was called, plus `start`."""

    def __contains__(self, queue: object) -> bool:
        return queue in self._members

    def next(self) -> MessageQueue:
        """Returns the next queue."""
        index = self.index = self.index + 1
        return self.queues[index % len(self.queues)]

    def next_where(self, is_wanted: Callable[[str], bool]) -> MessageQueue | None:
        """Returns the next queue whose broker is wanted, or None; asks once for each broker."""
        wanted = {name for name in self.broker_names if is_wanted(name)}
        if wanted:
            for _ in self.queues:
                queue = self.next()
                if queue.broker_name in wanted:
                    return queue
        return None
