"""Tables of queues as checkpoints, ledgers, commits and options have them.

Such a table is ``{"topic": {"broker": {"queue": value}}}``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from pocketmq.protocol.messages.message import MessageQueue

T = TypeVar("T")


def queue_table(values: Iterable[tuple[MessageQueue, T]]) -> dict[str, dict[str, dict[int, T]]]:
    """Makes a table of queues and their values, in the order in which they come."""
    table: dict[str, dict[str, dict[int, T]]] = {}
    for queue, value in values:
        brokers = table.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[queue.queue_id] = value
    return table


def queue_values(
    table: Mapping[str, Mapping[str, Mapping[int, T] | Mapping[str, T]]],
) -> Iterator[tuple[MessageQueue, T]]:
    """Yields the queues of a table and their values."""
    for topic, brokers in table.items():
        for broker_name, queues in brokers.items():
            for queue_id, value in queues.items():
                yield MessageQueue(topic, broker_name, int(queue_id)), value
