"""Tables of queues as checkpoints, ledgers, commits and options have them.

Such a table is ``{"topic": {"broker": {"queue": value}}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.spark.errors import OptionError

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


def read_table(option: str, text: str, kind: type[T], example: Any) -> T:
    """Reads a table of queues that stands in an option.

    Args:
        option: its name.
        text: the table as JSON.
        kind: the type of the table.
        example: what a queue, or the queues of a broker, may have.

    Raises:
        OptionError: it is no such table.
    """
    try:
        return msgspec.json.decode(text, type=kind, strict=False)
    except msgspec.DecodeError as e:
        form = {"Orders": {"broker-a": example}}
        reason = f"{e}; give it as"
        if (named := _without_brokers(text)) is not None:
            form, reason = named, "it has Kafka's form: name the broker of the queues, too, as in"
        raise OptionError(f"option {option!r} cannot be read: {reason} {json.dumps(form)}") from e


def _without_brokers(text: str) -> dict[str, Any] | None:
    """Returns a table of Kafka's form with a broker in the place where it is missing."""
    try:
        table = msgspec.json.decode(text, type=dict[str, list[int] | dict[int, int]], strict=False)
    except msgspec.DecodeError:
        return None
    return {topic: {"broker-a": queues} for topic, queues in table.items()} or None
