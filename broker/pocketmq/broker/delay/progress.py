"""How far a level's deliveries have come, in memory and as it may be written down."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from pocketmq.broker.store.queue_log import QueueLog

STEPS_MAX = 64
"""Steps that wait for the disk separately; more of them are joined."""


class Progress:
    """The offset behind the last delivered message whose copy is on the disk.

    Only that may be saved: otherwise a power cut could take a copy that only the system's memory
    held, while the saved offset says that the message was delivered.

    Args:
        offset: where it begins.

    Attributes:
        durable_offset: everything before it was delivered for good, as far as `advance` knows.
    """

    def __init__(self, offset: int) -> None:
        self.durable_offset = offset
        self._steps: deque[tuple[int, dict[QueueLog, int]]] = deque()

    def note(self, offset: int, copies: Mapping[QueueLog, int]) -> None:
        """Everything before an offset was delivered, with copies in these logs up to positions."""
        if len(self._steps) >= STEPS_MAX:
            _, earlier = self._steps.pop()
            copies = {**earlier, **copies}
        self._steps.append((offset, dict(copies)))

    def advance(self) -> int:
        """Looks what came to the disk meanwhile; returns `durable_offset`."""
        while self._steps and all(_is_safe(*copy) for copy in self._steps[0][1].items()):
            self.durable_offset, _ = self._steps.popleft()
        return self.durable_offset

    @property
    def waiting(self) -> int:
        """How many steps wait for the disk."""
        return len(self._steps)


def _is_safe(queue_log: QueueLog, position: int) -> bool:
    # A log without segments was deleted with its topic.
    return queue_log.synced_position >= position or not queue_log.segments
