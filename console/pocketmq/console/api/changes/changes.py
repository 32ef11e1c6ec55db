"""All operations that change topics, groups and offsets, or send many messages."""

from __future__ import annotations

from pocketmq.console.api.callers import Callers
from pocketmq.console.api.changes.group_changes import GroupChanges
from pocketmq.console.api.changes.line_calls import LineCalls
from pocketmq.console.api.changes.offsets import OffsetCalls
from pocketmq.console.api.changes.topic_changes import TopicChanges
from pocketmq.console.web.operations import Operation
from pocketmq.runtime.clock import Clock


class Changes:
    """The families of operations that change something.

    Args:
        callers: their clients.
        clock: the source of time.

    Attributes:
        topics, groups, offsets, lines: the families.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self.topics, self.groups = TopicChanges(callers), GroupChanges(callers)
        self.offsets, self.lines = OffsetCalls(callers, clock), LineCalls(callers)

    def operations(self) -> list[Operation]:
        """Returns the operations of all families."""
        return [
            *self.topics.operations(),
            *self.groups.operations(),
            *self.offsets.operations(),
            *self.lines.operations(),
        ]
