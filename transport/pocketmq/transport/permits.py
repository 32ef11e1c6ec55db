"""Bounds the calls that may be under way at once (`remoting/netty/NettySystemConfig`)."""

from __future__ import annotations

from pocketmq.transport.errors import TooMuchRequestError

ONEWAY_PERMITS = 65535
ASYNC_PERMITS = 65535


class Permits:
    """A bounded count that refuses at once: waiting would only move the queue.

    Args:
        kind: for the error message, such as ``one-way``.
        limit: how many may be taken together.
    """

    __slots__ = ("kind", "limit", "taken")

    def __init__(self, kind: str, limit: int) -> None:
        self.kind, self.limit, self.taken = kind, limit, 0

    def acquire(self) -> None:
        """Takes one permit.

        Raises:
            TooMuchRequestError: all are taken.
        """
        if self.taken >= self.limit:
            raise TooMuchRequestError(self.kind, self.limit)
        self.taken += 1

    def release(self) -> None:
        """Gives one permit back."""
        assert self.taken > 0, f"a {self.kind} permit is given back twice"
        self.taken -= 1
