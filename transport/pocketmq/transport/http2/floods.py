"""Counts frames that cost a peer less than this side."""

from __future__ import annotations

from collections.abc import Callable

from pocketmq.transport.http2.frames import ConnectionFault, ErrorCode


class Flood:
    """One kind of frame, of one connection: so many in a time.

    Args:
        name: of the frames, for the peer.
        limit: how many are allowed in the time.
        window_s: the time.
        monotonic: tells the time; asked once in `limit` frames.
    """

    __slots__ = ("_count", "_limit", "_monotonic", "_name", "_since_s", "_window_s")

    def __init__(
        self, name: str, limit: int, window_s: float, monotonic: Callable[[], float]
    ) -> None:
        self._name, self._limit, self._window_s = name, limit, window_s
        self._monotonic = monotonic
        self._count, self._since_s = 0, monotonic()

    def count(self) -> None:
        """Counts one frame.

        Raises:
            ConnectionFault: there were too many.
        """
        self._count += 1
        if self._count > self._limit:
            now_s = self._monotonic()
            if now_s - self._since_s < self._window_s:
                raise ConnectionFault(
                    ErrorCode.ENHANCE_YOUR_CALM,
                    f"more than {self._limit} {self._name} within {self._window_s:g} s",
                )
            self._count, self._since_s = 1, now_s

    def forgive(self) -> None:
        """Begins anew: the peer did something useful."""
        self._count = 0
