"""How far deliveries have come, in memory and on the disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Generic, TypeVar

from pocketmq.broker.store.log.queue_log import QueueLog

T = TypeVar("T")

STEPS_MAX = 64
"""Steps that wait for the disk separately; more of them are joined."""


class Steps(Generic[T]):
    """Deliveries in order, whose copies may not be on the disk yet.

    Only what the disk has may be saved: otherwise a power cut could take a copy while it is written
    down that the message was delivered.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[list[T], dict[QueueLog, int]]] = deque()

    def note(self, done: T, copies: Mapping[QueueLog, int]) -> None:
        """Adds a delivery whose copies end at these positions of these logs."""
        items = [done]
        if len(self._steps) >= STEPS_MAX:
            earlier_items, earlier = self._steps.pop()
            items, copies = earlier_items + items, {**earlier, **copies}
        self._steps.append((items, dict(copies)))

    def advance(self) -> list[T]:
        """Removes and returns the deliveries whose copies are on the disk by now."""
        items: list[T] = []
        while self._steps and all(_is_safe(*copy) for copy in self._steps[0][1].items()):
            items += self._steps.popleft()[0]
        return items

    @property
    def waiting(self) -> int:
        """How many steps wait for the disk."""
        return len(self._steps)


class Progress:
    """The offset behind the last delivered message of a level whose copy is on the disk.

    Args:
        offset: where it begins.

    Attributes:
        durable_offset: everything before it was delivered for good, as far as `advance` knows.
    """

    def __init__(self, offset: int) -> None:
        self.durable_offset = offset
        self._steps: Steps[int] = Steps()

    def note(self, offset: int, copies: Mapping[QueueLog, int]) -> None:
        """Adds a step: all before an offset is delivered, with copies that end at positions."""
        self._steps.note(offset, copies)

    def advance(self) -> int:
        """Advances over the steps whose copies are on the disk by now; returns `durable_offset`."""
        for offset in self._steps.advance():
            self.durable_offset = offset
        return self.durable_offset

    @property
    def waiting(self) -> int:
        """How many steps wait for the disk."""
        return self._steps.waiting


def _is_safe(queue_log: QueueLog, position: int) -> bool:
    # A log without segments was deleted with its topic.
    return queue_log.synced_position >= position or not queue_log.segments
