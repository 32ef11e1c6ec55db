"""How long a leader may act as one without hearing from its followers.

Each follower that answers a frame promises not to stand for election for the time of the lease,
from the moment at which it got the frame. The leader counts the same time from the moment at which
it sent the frame, so its lease ends before any promise. Only members of the in-sync set can be
elected: the promises of all of them together are the lease, and a leader that is alone in the set
needs none. So the arbiter grants no leases, and a set whose members reach each other needs the
arbiter for changes only. Pure: no sockets, no clock.
"""

from __future__ import annotations

import math
from collections.abc import Iterable


class Lease:
    """The promises that a leader has.

    Args:
        lease_s: for how long one holds.
    """

    def __init__(self, lease_s: float) -> None:
        self.lease_s = lease_s
        self._required: frozenset[int] = frozenset()
        self._sent_s: dict[int, float] = {}
        self.until_s = math.inf

    def require(self, members: Iterable[int]) -> None:
        """Sets the followers that could be elected."""
        self._required = frozenset(members)
        self._count()

    def heard(self, member: int, sent_s: float) -> None:
        """Notes that a follower has answered what was sent at a time."""
        if sent_s > self._sent_s.get(member, -math.inf):
            self._sent_s[member] = sent_s
            if member in self._required:
                self._count()

    def _count(self) -> None:
        heard = (self._sent_s.get(member, -math.inf) for member in self._required)
        self.until_s = min(heard, default=math.inf) + self.lease_s

    def is_valid(self, now_s: float) -> bool:
        """Whether the leader may act as one."""
        return now_s < self.until_s
