"""Bounds the bytes of incomplete frames that all connections of a server hold together.

Without the bound ten thousand peers could each leave a frame of 16 MiB unfinished.
"""

from __future__ import annotations

from typing import Protocol

from pocketmq.runtime.clock import Clock, Timer
from pocketmq.transport.reading_state import Hold

UNREAD_SIZE_MAX = 256 * 1024 * 1024
"""Bytes of incomplete large frames that may be held at the same time."""

SMALL_FRAME_SIZE = 64 * 1024
"""Frames of up to this size take no room: the size itself bounds what a connection holds."""

FRAME_PATIENCE_S = 2.0
"""Seconds for which the rate of a large frame is measured while others wait for room."""

FRAME_RATE_MIN = 512 * 1024
"""Bytes of a large frame that must arrive in a second while others wait for room."""


class ReadingConnection(Protocol):
    """What the budget needs of a connection."""

    @property
    def peer_name(self) -> str: ...  # noqa: D102

    @property
    def is_reading(self) -> bool:
        """Whether this side takes what the peer sends."""

    def hold_reading(self, reason: Hold) -> None:
        """Reads nothing until `release_reading` is called with the same reason."""

    def release_reading(self, reason: Hold) -> None:
        """Reads again, if no other reason holds it."""

    def cut_off(self, reason: str) -> None:
        """Closes the connection at once, and warns of it."""


class _Frame:
    """An incomplete frame.

    Attributes:
        size, missing: its bytes, and how many of them have not arrived.
        is_granted: whether room is kept for the missing ones.
        seen_s, seen_missing: when its rate was last looked at, and what was missing then.
    """

    __slots__ = ("is_granted", "missing", "seen_missing", "seen_s", "size")

    def __init__(self, size: int, missing: int, now_s: float) -> None:
        self.size, self.missing, self.is_granted = size, missing, False
        self.see(now_s)

    def see(self, now_s: float) -> None:
        """Begins to measure its rate."""
        self.seen_s, self.seen_missing = now_s, self.missing


class FrameBudget:
    """Gives room to large frames for what has arrived of them, and in the end for all of them.

    While a quarter of the room or less is taken, a frame's whole room is kept from its beginning.
    Until half of the room is taken everybody is read from. Then a peer is only read from if there
    is room for all that its frame still lacks, which is kept for it, so that every such peer can
    finish; the others wait in the order in which they came. While somebody waits, a peer that is
    read from and sends too slowly is cut off.

    Args:
        clock: measures rates.
        size_max: bytes in all, besides one read of each connection; a single frame may have more.
        patience_s: how long a rate is measured.
        rate_min: the rate, in bytes a second.

    Attributes:
        size: bytes that have arrived, and those for which room is kept.
    """

    def __init__(
        self,
        clock: Clock,
        size_max: int = UNREAD_SIZE_MAX,
        patience_s: float = FRAME_PATIENCE_S,
        rate_min: float = FRAME_RATE_MIN,
    ) -> None:
        self._clock, self._size_max = clock, size_max
        self._kept_size_max = size_max // 4
        self._patience_s, self._rate_min = patience_s, rate_min
        self.size = 0
        self._arrived_size = self._granted_count = self._occupied_size = 0
        self._frames: dict[ReadingConnection, _Frame] = {}
        self._waiting: dict[ReadingConnection, _Frame] = {}
        self._timer: Timer | None = None

    @property
    def waiting_count(self) -> int:
        """How many connections wait for room."""
        return len(self._waiting)

    def begin(self, reader: ReadingConnection, size: int, missing: int) -> bool:
        """Notes a frame that has begun; holds its connection unless there is room.

        Returns whether room for all of the frame is kept already.

        Args:
            reader: whose peer sends it.
            size, missing: its bytes, and how many have not arrived yet.
        """
        assert reader not in self._frames, f"{reader.peer_name} has a frame already"
        frame = self._frames[reader] = _Frame(size, missing, self._clock.monotonic())
        self._count(size - missing)
        if self.size + missing <= self._kept_size_max and not self._waiting:
            self._keep(frame)
        else:
            self._admit(reader, frame)
        return frame.is_granted

    def arrived(self, reader: ReadingConnection, missing: int) -> None:
        """Notes that so much of a frame is missing now; holds its connection unless there is room.

        The frame is not complete; `give_back` is called when it is.
        """
        frame = self._frames[reader]
        grown, frame.missing = frame.missing - missing, missing
        if frame.is_granted:  # its room was kept
            self._arrived_size += grown
            return
        self._count(grown)
        self._admit(reader, frame)

    def give_back(self, reader: ReadingConnection) -> None:
        """Frees the room of a connection whose frame is complete, or that is gone."""
        frame = self._frames.pop(reader, None)
        if frame is None:
            return
        self._waiting.pop(reader, None)
        self._arrived_size -= frame.size - frame.missing
        self.size -= frame.size if frame.is_granted else frame.size - frame.missing
        self._granted_count -= frame.is_granted
        self._let_others_go_on()

    def occupy(self, size: int) -> None:
        """Takes room for a complete frame that waits to be handled, until `vacate`.

        While there is such a frame, no other one is read beyond the bound.
        """
        self._count(size)
        self._occupied_size += size

    def vacate(self, size: int) -> None:
        """Gives back what `occupy` took."""
        self._count(-size)
        self._occupied_size -= size
        self._let_others_go_on()

    def _let_others_go_on(self) -> None:
        assert self.size >= self._arrived_size >= 0, "more room was given back than taken"
        while self._waiting:
            waiting, frame = next(iter(self._waiting.items()))
            if not self._has_room(frame):
                return
            del self._waiting[waiting]
            frame.see(self._clock.monotonic())
            waiting.release_reading(Hold.FRAME_BUDGET)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _count(self, grown: int) -> None:
        self.size += grown
        self._arrived_size += grown

    def _admit(self, reader: ReadingConnection, frame: _Frame) -> None:
        if not self._waiting and self._has_room(frame):
            return
        self._waiting[reader] = frame
        reader.hold_reading(Hold.FRAME_BUDGET)
        if self._timer is None:
            now_s = self._clock.monotonic()
            for other in self._frames.values():
                other.see(now_s)
            self._timer = self._clock.call_later(self._patience_s, self._look)

    def _has_room(self, frame: _Frame) -> bool:
        """Whether a frame may go on; keeps room for the rest of it once half of all is taken."""
        if self._arrived_size <= self._size_max // 2:
            return True
        if (
            self._granted_count or self._occupied_size
        ) and self.size + frame.missing > self._size_max:
            return False
        self._keep(frame)
        return True

    def _keep(self, frame: _Frame) -> None:
        frame.is_granted = True
        self._granted_count += 1
        self.size += frame.missing

    def _look(self) -> None:
        """Cuts off who sends too slowly."""
        self._timer = None
        now_s = self._clock.monotonic()
        for reader, frame in list(self._frames.items()):
            if reader in self._waiting or not reader.is_reading:
                frame.see(now_s)
                continue
            passed_s, grown = now_s - frame.seen_s, frame.seen_missing - frame.missing
            if passed_s < self._patience_s or reader not in self._frames:
                continue
            frame.see(now_s)
            if grown < passed_s * self._rate_min:
                reader.cut_off(
                    f"its frame of {frame.size} bytes grew by {grown} bytes in {passed_s:g} s, and "
                    f"{len(self._waiting)} others wait for room: send at least {self._rate_min:g} "
                    f"bytes a second, or smaller frames"
                )
        if self._waiting:
            self._timer = self._clock.call_later(self._patience_s, self._look)
