"""Receives the rest of a large frame straight into its place, without a copy."""

from __future__ import annotations

import asyncio
from typing import Protocol


class PlacingStream(Protocol):
    """What the receiver needs of the stream whose frame it receives."""

    @property
    def place_left(self) -> memoryview:
        """Where the next bytes of the frame belong."""

    def received_in_place(self, size: int) -> None:
        """Notes that so many bytes were written there; takes the transport back at the end."""

    def pause_writing(self) -> None: ...  # noqa: D102

    def resume_writing(self) -> None: ...  # noqa: D102

    def eof_received(self) -> bool: ...  # noqa: D102

    def connection_lost(self, exc: Exception | None) -> None: ...  # noqa: D102


class PlaceReceiver(asyncio.BufferedProtocol):
    """Stands in for a stream at its transport until the stream's large frame is complete.

    Args:
        stream: gets all else that happens to the transport.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: PlacingStream) -> None:
        self._stream = stream

    def get_buffer(self, sizehint: int) -> memoryview:
        """Gives the transport the place: no byte of the next frame fits into it."""
        return self._stream.place_left

    def buffer_updated(self, nbytes: int) -> None:
        """Tells the stream how many bytes have come."""
        self._stream.received_in_place(nbytes)

    def pause_writing(self) -> None:
        """Tells the stream that its peer does not read."""
        self._stream.pause_writing()

    def resume_writing(self) -> None:
        """Tells the stream that its peer reads again."""
        self._stream.resume_writing()

    def eof_received(self) -> bool:
        """Tells the stream that its peer has closed, in the midst of the frame."""
        return self._stream.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tells the stream that the connection is gone."""
        self._stream.connection_lost(exc)
