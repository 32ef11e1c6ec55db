"""Tells which messages a group has popped and not acknowledged: 31060."""

from __future__ import annotations

from collections.abc import Iterator

from pocketmq.broker.popping.in_flight import InFlight, Popped
from pocketmq.broker.popping.ordered_batch import OrderedBatch
from pocketmq.broker.popping.pop_queues import PopQueue, PopQueues
from pocketmq.broker.refusals import topic_missing
from pocketmq.broker.topics.topics import TopicTable
from pocketmq.protocol.bodies.popping import InFlightTable, PoppedQueue
from pocketmq.protocol.codes import RequestCode, ResponseCode
from pocketmq.protocol.requests.extensions.in_flight import InFlightRequest
from pocketmq.protocol.requests.popping import ALL_QUEUES
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection, Handler

LISTED_MAX = 1000
"""Messages of one answer."""

QUEUES_MAX = 1000
"""Queues of one answer."""


class InFlightHandlers:
    """Lists messages in flight.

    Args:
        topics, queues: of the broker.
    """

    def __init__(self, topics: TopicTable, queues: PopQueues) -> None:
        self._topics, self._queues = topics, queues

    def table(self) -> dict[int, Handler]:
        """The handlers by request code."""
        return {RequestCode.IN_FLIGHT: self.in_flight}

    def in_flight(self, command: Command, _: Connection) -> Command:
        """31060: of one queue from an offset on, or of all queues of a topic, in order."""
        request = command.read(InFlightRequest)
        config = self._topics.get(request.topic)
        if config is None:
            raise topic_missing(request.topic)
        ids = range(min(config.queue_nums_max, QUEUES_MAX))
        if request.queue_id != ALL_QUEUES:
            ids = range(request.queue_id, request.queue_id + 1)
        offset = 0 if request.queue_id == ALL_QUEUES else request.offset
        left = max(0, min(request.count, LISTED_MAX))
        listed = []
        for queue_id in ids:
            queue = self._queues.get(request.consumer_group, request.topic, queue_id)
            if queue is not None:
                listed.append(_listed(queue, offset, left))
                left -= len(listed[-1].offsets)
        return Command(ResponseCode.SUCCESS, body=InFlightTable(queues=listed).encode())


def _listed(queue: PopQueue, offset: int, count_max: int) -> PoppedQueue:
    listed = PoppedQueue(queue_id=queue.queue_id, next_offset=queue.next_offset)
    batch = queue.batch
    if batch is None:
        listed.count = queue.in_flight.count
        found = _in_flight(queue.in_flight, offset)
    else:
        listed.is_ordered = True
        listed.count = len(batch.offsets) - len(batch.acknowledged)
        found = (popped for popped in _of_batch(batch) if popped.offset >= offset)
    for popped, _ in zip(found, range(count_max), strict=False):
        listed.offsets.append(popped.offset)
        listed.due_ms.append(popped.due_ms)
        listed.pop_ms.append(popped.pop_ms)
    return listed


def _in_flight(in_flight: InFlight, offset: int) -> Iterator[Popped]:
    first = in_flight.page_of(offset)
    for number in in_flight.page_numbers:
        if number >= first:
            yield from (each for each in in_flight.of_page(number) if each.offset >= offset)


def _of_batch(batch: OrderedBatch) -> Iterator[Popped]:
    until_ms = batch.pop_ms + batch.invisible_ms
    for offset in batch.offsets:
        if offset not in batch.acknowledged:
            due_ms = batch.due_ms.get(offset, until_ms)
            yield Popped(offset, due_ms, batch.pop_ms, is_suspended=False)
