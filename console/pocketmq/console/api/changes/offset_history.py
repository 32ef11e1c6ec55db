"""Remembers where groups stood before they were put elsewhere, so that this can be undone."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

from pocketmq.console.api.bodies.offsets import OffsetChange, QueueReset
from pocketmq.runtime.clock import Clock

KEPT_MS = 24 * 3600 * 1000
"""Milliseconds for which a change can be undone."""

CHANGES_MAX = 200
"""Changes that are remembered."""

QUEUES_MAX = 100_000
"""Queues of all remembered changes; the oldest changes go first."""


class Change(NamedTuple):
    """A reset of a group.

    Attributes:
        group: which group.
        told: the change, as the API tells it.
    """

    group: str
    told: OffsetChange


class OffsetHistory:
    """The resets of the last day, in memory, bounded.

    Args:
        clock: the source of time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changes: OrderedDict[str, Change] = OrderedDict()
        self._queues = 0

    def add(
        self, group: str, topic: str, queues: Sequence[QueueReset], user: str, reason: str | None
    ) -> str | None:
        """Remembers a change.

        Returns:
            the id of the change; None if nothing has changed.
        """
        moved = [queue for queue in queues if queue.before != queue.after]
        if not moved:
            return None
        name = secrets.token_hex(8)
        told = OffsetChange(
            change=name, topic=topic, time_ms=self._clock.now_ms(), user=user, reason=reason,
            queues=moved,
        )  # fmt: skip
        self._changes[name] = Change(group, told)
        self._queues += len(moved)
        self._forget()
        return name

    def of_group(self, group: str) -> list[OffsetChange]:
        """The changes of a group, the newest first."""
        self._forget()
        return [each.told for each in reversed(self._changes.values()) if each.group == group]

    def get(self, group: str, name: str) -> OffsetChange | None:
        """A change of a group; None if it is not remembered."""
        self._forget()
        found = self._changes.get(name)
        return found.told if found is not None and found.group == group else None

    def _forget(self) -> None:
        too_old_ms = self._clock.now_ms() - KEPT_MS
        while self._changes:
            oldest = next(iter(self._changes.values())).told
            is_much = len(self._changes) > CHANGES_MAX or self._queues > QUEUES_MAX
            if oldest.time_ms > too_old_ms and not (is_much and len(self._changes) > 1):
                return
            self._changes.popitem(last=False)
            self._queues -= len(oldest.queues)
