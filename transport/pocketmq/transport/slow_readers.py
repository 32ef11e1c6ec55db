"""Bounds what is left unsent to all peers that do not read their answers."""

from __future__ import annotations

from typing import Protocol

from pocketmq.runtime.clock import Clock, Timer

UNSENT_SIZE_MAX = 512 * 1024 * 1024
"""Bytes that may wait in all: one half for slow peers, the other for all other peers."""

SLOW_READER_TIMEOUT_S = 30.0
READ_SHARE_MIN = 1 / 16
"""The part of its unread bytes that a slow peer must read in each SLOW_READER_TIMEOUT_S."""

PAUSE_SIZE_MIN = 16 * 1024
"""Unsent bytes that each connection may have before it counts as slow, however many there are."""


class WritingConnection(Protocol):
    """What the bound needs of a connection."""

    @property
    def peer_name(self) -> str: ...  # noqa: D102

    @property
    def unsent_size(self) -> int: ...  # noqa: D102

    def cut_off(self, reason: str) -> None:
        """Closes the connection at once, and warns of it."""


class _Slow:
    """The state of a peer that does not keep up.

    Attributes:
        size: what it has left unread when it was last looked at.
        at_look: the same at the last look of the timer.
        added: bytes written to it since that look.
    """

    __slots__ = ("added", "at_look", "size", "timer")

    def __init__(self, size: int, timer: Timer) -> None:
        self.size = self.at_look = size
        self.added = 0
        self.timer = timer


class SlowReaders:
    """The connections of a server whose peers do not keep up.

    The connections do not read such peers' requests. Here a peer is cut off if it goes on like
    that; and if too much waits for all of them, the peer that has left the most unread.

    Args:
        clock: for the time limit.
        size_max: bytes that may wait in all.
        timeout_s: the time limit.
    """

    def __init__(
        self,
        clock: Clock,
        size_max: int = UNSENT_SIZE_MAX,
        timeout_s: float = SLOW_READER_TIMEOUT_S,
    ) -> None:
        self._clock, self._timeout_s = clock, timeout_s
        self._size_max = size_max // 2
        self.size = 0
        self._slow: dict[WritingConnection, _Slow] = {}

    @property
    def count(self) -> int:
        """How many peers do not keep up."""
        return len(self._slow)

    def pause_size(self, connections: int, most: int) -> int:
        """Returns from how many unsent bytes on a peer counts as slow.

        Args:
            connections: how many are open.
            most: the size with few connections.
        """
        return max(min(most, self._size_max // max(connections, 1)), PAUSE_SIZE_MIN)

    def begin(self, writer: WritingConnection) -> None:
        """Enters a peer that does not keep up."""
        if writer not in self._slow:
            timer = self._clock.call_later(self._timeout_s, self._look, writer)
            slow = self._slow[writer] = _Slow(writer.unsent_size, timer)
            self._grew(slow.size)

    def wrote(self, writer: WritingConnection, size: int) -> None:
        """Notes that more was written to a peer, if it does not keep up."""
        slow = self._slow.get(writer)
        if slow is not None:
            slow.added += size
            before, slow.size = slow.size, writer.unsent_size
            self._grew(slow.size - before)

    def end(self, writer: WritingConnection) -> None:
        """Removes a peer that keeps up again, or is gone."""
        slow = self._slow.pop(writer, None)
        if slow is not None:
            slow.timer.cancel()
            self.size -= slow.size

    def _grew(self, size: int) -> None:
        self.size += size
        while self.size > self._size_max and self._slow:
            self._measure()
            if self.size <= self._size_max:
                return
            largest = max(self._slow, key=lambda writer: self._slow[writer].size)
            self._cut_off(
                largest,
                f"it left {self._slow[largest].size} bytes unread, the most of "
                f"{len(self._slow)} slow readers, who may leave {self._size_max} in all",
            )

    def _measure(self) -> None:
        """Measures anew how much each slow peer has left unread."""
        for writer, slow in self._slow.items():
            before, slow.size = slow.size, writer.unsent_size
            self.size += slow.size - before

    def _look(self, writer: WritingConnection) -> None:
        slow = self._slow[writer]
        now = writer.unsent_size
        read = slow.at_look + slow.added - now
        if read < slow.at_look * READ_SHARE_MIN:
            self._cut_off(
                writer,
                f"it read {max(read, 0)} bytes in {self._timeout_s:g} s and left {now} unread",
            )
            return
        self.size += now - slow.size
        slow.size = slow.at_look = now
        slow.added = 0
        slow.timer = self._clock.call_later(self._timeout_s, self._look, writer)

    def _cut_off(self, writer: WritingConnection, reason: str) -> None:
        self.end(writer)
        writer.cut_off(reason)
