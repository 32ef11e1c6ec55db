"""The commits that followers do not have yet: who waits for them, and what readers may see.

A turn is what one commit of the leader has written. It is replicated when every member of the
in-sync set has it (Kafka's high watermark, by turns instead of offsets: one comparison serves all
logs). Pure: no sockets, no clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from pocketmq.broker.store.disk.errors import NotReplicatedError
from pocketmq.broker.store.log.queue_log import OnStored, QueueLog
from pocketmq.protocol.errors import OperatingError

LogEnd = tuple[QueueLog, int, int]
"""A log, and the position and offset behind its last record."""


class Turn:
    """What one commit has written.

    Attributes:
        number: turns are counted from 1.
        begun_s: when it was written.
        ends: of the logs that grew.
        waiters: told when the turn is replicated, or when that takes too long.
    """

    __slots__ = ("begun_s", "ends", "number", "waiters")

    def __init__(self, number: int, begun_s: float) -> None:
        self.number, self.begun_s = number, begun_s
        self.ends: list[LogEnd] = []
        self.waiters: list[OnStored] = []


class Turns:
    """The turns of a leader, in order.

    Args:
        on_shown: called with each log in which readers see more.

    Attributes:
        last: the number of the newest turn.
        replicated: up to here every member that is required has all turns.
    """

    def __init__(self, on_shown: Callable[[QueueLog], object]) -> None:
        self._on_shown = on_shown
        self._waiting: deque[Turn] = deque()
        self._required: frozenset[int] = frozenset()
        self._has: dict[int, int] = {}
        self.last = self.replicated = 1  # 0 stands for members of which nothing is known

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, turn: Turn) -> None:
        """Adds the next turn."""
        self.last = turn.number
        self._waiting.append(turn)
        self._advance()

    def require(self, members: Iterable[int]) -> None:
        """Sets which followers must have a turn before it is replicated.

        While the in-sync set is being changed these are the members of the old and the new one.
        """
        self._required = frozenset(members)
        self._has = {member: self._has.get(member, 0) for member in self._required | set(self._has)}
        self._advance()

    def acknowledge(self, member: int, number: int) -> None:
        """Notes that a member has all turns up to a number."""
        if number > self._has.get(member, -1):
            self._has[member] = number
            if member in self._required:
                self._advance()

    def acknowledged(self, member: int) -> int:
        """Returns up to which turn a member has all; 0 if nothing is known of it."""
        return self._has.get(member, 0)

    def forget(self, member: int) -> None:
        """Forgets what a member has: it is gone, and may come back with less."""
        self._has.pop(member, None)
        if member in self._required:
            self._has[member] = 0

    def _advance(self) -> None:
        has = self._has
        replicated = min((has[member] for member in self._required), default=self.last)
        if replicated <= self.replicated:
            return
        self.replicated = replicated
        done: list[Turn] = []
        waiting = self._waiting
        while waiting and waiting[0].number <= replicated:
            done.append(waiting.popleft())
        for turn in done:
            for queue_log, position, offset in turn.ends:
                queue_log.show(position, offset)
        for turn in done:
            waiters, turn.waiters = turn.waiters, []
            for on_stored in waiters:
                on_stored(None)
        for turn in done:
            for queue_log, _, _ in turn.ends:
                self._on_shown(queue_log)

    def expire(self, before_s: float, timeout_ms: int) -> None:
        """Tells those who wait for turns that were written before a time that it takes too long.

        The turns stay: readers see them when they are replicated (`slaveTimeout`).
        """
        late = [turn for turn in self._waiting if turn.waiters and turn.begun_s <= before_s]
        for turn in late:
            waiters, turn.waiters = turn.waiters, []
            lacking = sorted(m for m in self._required if self._has.get(m, 0) < turn.number)
            error = NotReplicatedError(timeout_ms, lacking)
            for on_stored in waiters:
                on_stored(error)

    def late(self, before_s: float) -> list[int]:
        """Returns the required members that lack a turn that was written before a time."""
        if not self._waiting or self._waiting[0].begun_s > before_s:
            return []
        oldest = self._waiting[0].number
        return sorted(m for m in self._required if self._has.get(m, 0) < oldest)

    def oldest_s(self) -> float | None:
        """Returns when the oldest turn with waiters was written; None without one."""
        return next((turn.begun_s for turn in self._waiting if turn.waiters), None)

    def abandon(self, error: OperatingError) -> None:
        """Ends all turns: this member leads no more, and nobody knows what becomes of them."""
        waiting, self._waiting = list(self._waiting), deque()
        for turn in waiting:
            waiters, turn.waiters = turn.waiters, []
            for on_stored in waiters:
                on_stored(error)
