"""Holds the names, numbers and checkpoints of all queue logs, whether they are open or not.

Tens of thousands of queues may rest: each costs a row here and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from pocketmq.broker.store.log.checkpoint import Checkpoint


class KnownLog(NamedTuple):
    """The row of a queue log; its number is never given to another log.

    Attributes:
        checkpoint: the last one; None while there is none since it was lost with the metadata.
    """

    topic: str
    queue_id: int
    number: int
    checkpoint: Checkpoint | None


class LogTable:
    """Finds the rows of queue logs by queue and by number."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, KnownLog]] = {}
        self._numbers: dict[int, KnownLog] = {}
        self._new: list[int] = []

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[KnownLog]:
        return iter(list(self._numbers.values()))

    def enter(
        self, topic: str, queue_id: int, number: int, checkpoint: Checkpoint | None
    ) -> KnownLog:
        """Enters a log, or replaces its row, and returns the row."""
        queues = self._topics.get(topic)
        if queues is None:
            queues = self._topics[topic] = {}
        elif queues:
            topic = next(iter(queues.values())).topic  # one text for all queues of a topic
        known = queues[queue_id] = self._numbers[number] = KnownLog(
            topic, queue_id, number, checkpoint
        )
        self._new.append(number)
        return known

    def get(self, topic: str, queue_id: int) -> KnownLog | None:
        """Returns the row of a queue's log; None while nothing was ever written to the queue."""
        queues = self._topics.get(topic)
        return None if queues is None else queues.get(queue_id)

    def of_topic(self, topic: str) -> Mapping[int, KnownLog]:
        """Returns the rows of a topic's logs, by queue."""
        return self._topics.get(topic, {})

    def by_number(self, number: int) -> KnownLog | None:
        """Returns the row of the log with a number; None if there is none."""
        return self._numbers.get(number)

    def set_checkpoint(self, number: int, checkpoint: Checkpoint) -> None:
        """Replaces the checkpoint of a log, unless the log was deleted meanwhile."""
        known = self._numbers.get(number)
        if known is not None:
            known = known._replace(checkpoint=checkpoint)
            self._topics[known.topic][known.queue_id] = self._numbers[number] = known

    def queue_ids(self, topic: str) -> list[int]:
        """Returns the queues of a topic that were written to."""
        return sorted(self._topics.get(topic, ()))

    def numbers(self, topic: str) -> list[int]:
        """Returns the numbers of a topic's logs."""
        return [known.number for known in self._topics.get(topic, {}).values()]

    def topics(self) -> list[str]:
        """Returns the topics that were written to."""
        return list(self._topics)

    def remove_topic(self, topic: str) -> list[KnownLog]:
        """Removes the rows of a topic's logs, and returns them."""
        removed = list(self._topics.pop(topic, {}).values())
        for known in removed:
            del self._numbers[known.number]
        return removed

    @property
    def has_new(self) -> bool:
        """Whether logs were entered since the last `take_new`."""
        return bool(self._new)

    def take_new(self) -> list[int]:
        """Returns the numbers of the logs that were entered since the last call."""
        new, self._new = self._new, []
        return new
