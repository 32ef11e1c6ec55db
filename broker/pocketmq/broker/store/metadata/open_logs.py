"""Holds the queue logs that are open: those asked for lately, and those that cannot be closed.

A log at rest costs a row of the table of known logs; an open one ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from weakref import WeakValueDictionary

from pocketmq.broker.store.log.queue_log import QueueLog

CLOSED_PER_TURN = 500
"""Logs that are looked at between two turns of the loop."""

Key = tuple[str, int]


class OpenLogs:
    """Keeps open logs in two ages: a log that nobody asks for grows older, then is closed.

    There is never a second log of the same queue: one that was closed while somebody still had it
    is found again as long as he does.

    Attributes:
        recent: the younger ones, which is where to look first; the others are in `find`.
    """

    def __init__(self) -> None:
        self.recent: dict[Key, QueueLog] = {}
        self._older: dict[Key, QueueLog] = {}
        self._leaving: dict[Key, QueueLog] = {}
        self._held: WeakValueDictionary[Key, QueueLog] = WeakValueDictionary()

    def __iter__(self) -> Iterator[QueueLog]:
        return chain(self.recent.values(), self._older.values(), self._leaving.values())

    def __len__(self) -> int:
        return len(self.recent) + len(self._older) + len(self._leaving)

    def __contains__(self, key: Key) -> bool:
        return key in self.recent or key in self._older or key in self._leaving or key in self._held

    def put(self, key: Key, queue_log: QueueLog) -> None:
        """Adds a log that was opened."""
        assert key not in self
        self.recent[key] = queue_log

    def find(self, key: Key) -> QueueLog | None:
        """Returns an open log and makes it a recent one; None if the log has to be opened."""
        queue_log = self.recent.get(key)
        if queue_log is None:
            queue_log = self.pop(key)
            if queue_log is not None:
                self.recent[key] = queue_log
        return queue_log

    @property
    def are_all_recent(self) -> bool:
        """Whether no open log is older than `recent`."""
        return not self._older and not self._leaving and not len(self._held)

    def peek(self, key: Key) -> QueueLog | None:
        """Returns an open log, which grows older as if nobody had asked; None without one."""
        queue_log = self.recent.get(key) or self._older.get(key)
        if queue_log is None and (self._leaving or len(self._held)):
            queue_log = self._leaving.get(key) or self._held.get(key)
        return queue_log

    def pop(self, key: Key) -> QueueLog | None:
        """Removes and returns a log; None if it is not open."""
        for logs in (self.recent, self._older, self._leaving, self._held):
            queue_log = logs.pop(key, None)
            if queue_log is not None:
                return queue_log
        return None

    def grow_older(self, may_close: Callable[[QueueLog], bool]) -> Iterator[None]:
        """Closes the logs that nobody asked for since the last call but one, some at each step."""
        leaving = self._leaving = {**self._leaving, **self._older}
        self._older, self.recent = self.recent, {}
        looks = 0
        while leaving:
            key, queue_log = leaving.popitem()
            if may_close(queue_log):
                self._held[key] = queue_log
            else:
                self._older[key] = queue_log
            looks += 1
            if looks % CLOSED_PER_TURN == 0:
                del queue_log
                yield
