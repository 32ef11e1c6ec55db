"""One of kombu's queues as the client sees it: a group that pops from some topics."""

from __future__ import annotations

from typing import NamedTuple

from pocketmq.client.consumers.work_queue import WorkQueue
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.protocol.messages.message import ReceivedMessage


class LinkedQueue(WorkQueue):
    """The work of one queue.

    Args:
        name: kombu's name of the queue.
        group, topics, instance, invisible_ms: see `WorkQueue`.
    """

    def __init__(
        self, name: str, group: str, topics: list[str], instance: ClientInstance, invisible_ms: int
    ) -> None:
        super().__init__(group, topics, instance, invisible_ms)
        self.name = name


class Delivery(NamedTuple):
    """A message, and the queue that it was popped for."""

    queue: LinkedQueue
    message: ReceivedMessage
