"""Bounds the bytes of incomplete frames that all connections of a server hold together.

Without the bound ten thousand peers could each leave a frame of 16 MiB unfinished.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.reading_state import Hold

UNREAD_SIZE_MAX = 256 * 1024 * 1024
"""Bytes of large frames that may be incomplete at the same time."""

SMALL_FRAME_SIZE = 64 * 1024
"""Frames of up to this size take no room: the size itself bounds what a connection holds."""

FRAME_PATIENCE_S = 30.0
"""Seconds that a large frame may take while others wait for its room."""


class ReadingConnection(Protocol):
    """What the budget needs of a connection."""

    @property
    def peer_name(self) -> str: ...  # noqa: D102

    def hold_reading(self, reason: Hold) -> None:
        """Reads nothing until `release_reading` is called with the same reason."""

    def release_reading(self, reason: Hold) -> None:
        """Reads again, if no other reason holds it."""

    def cut_off(self, reason: str) -> None:
        """Closes the connection at once, and warns of it."""


class _Frame(NamedTuple):
    size: int
    begun_s: float


class FrameBudget:
    """Gives room to large frames, in the order in which they begin.

    The whole size of a frame is reserved before the rest of it is read, so that every peer with
    room can finish. A peer without room is not read from. A peer that does not finish in time while
    others wait is cut off.

    Args:
        clock: for the time limit.
        size_max: bytes in all; a single frame may have more if it is alone.
        patience_s: the time limit.
    """

    def __init__(
        self, clock: Clock, size_max: int = UNREAD_SIZE_MAX, patience_s: float = FRAME_PATIENCE_S
    ) -> None:
        self._clock, self._size_max, self._patience_s = clock, size_max, patience_s
        self.size = 0
        self._frames: dict[ReadingConnection, _Frame] = {}
        self._waiting: dict[ReadingConnection, int] = {}
        self._timer: Timer | None = None

    @property
    def waiting_count(self) -> int:
        """How many connections wait for room."""
        return len(self._waiting)

    def reserve(self, reader: ReadingConnection, size: int) -> None:
        """Takes room for a frame that has begun, or holds its connection until there is room."""
        assert reader not in self._frames, f"{reader.peer_name} has room for a frame already"
        if not self._waiting and self._has_room(size):
            self._grant(reader, size)
            return
        self._waiting[reader] = size
        reader.hold_reading(Hold.FRAME_BUDGET)
        if self._timer is None:
            self._arm()

    def give_back(self, reader: ReadingConnection) -> None:
        """Frees the room of a connection whose frame is complete, or that is gone."""
        self._waiting.pop(reader, None)
        frame = self._frames.pop(reader, None)
        if frame is not None:
            self.size -= frame.size
            assert self.size >= 0, "more room was given back than taken"
        while self._waiting:
            waiting, size = next(iter(self._waiting.items()))
            if not self._has_room(size):
                return
            del self._waiting[waiting]
            self._grant(waiting, size)
            waiting.release_reading(Hold.FRAME_BUDGET)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _has_room(self, size: int) -> bool:
        return self.size + size <= self._size_max or not self._frames

    def _grant(self, reader: ReadingConnection, size: int) -> None:
        self._frames[reader] = _Frame(size, self._clock.monotonic())
        self.size += size

    def _arm(self) -> None:
        oldest_s = min(frame.begun_s for frame in self._frames.values())
        left_s = max(oldest_s + self._patience_s - self._clock.monotonic(), 1.0)
        self._timer = self._clock.call_later(left_s, self._look)

    def _look(self) -> None:
        self._timer = None
        limit_s = self._clock.monotonic() - self._patience_s
        for reader, frame in list(self._frames.items()):
            if frame.begun_s <= limit_s and reader in self._frames:
                reason = (
                    f"its frame of {frame.size} bytes is not complete after "
                    f"{self._patience_s:g} s, and {len(self._waiting)} others wait for its room"
                )
                reader.cut_off(reason)
        if self._waiting and self._frames:
            self._arm()
