"""A connection over TLS that knows what its peer has not read: the loop's TLS does not tell."""

from __future__ import annotations

import asyncio
from collections import deque

from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, ConnectionOptions, Handlers
from pocketmq.transport.frame_stream import CLOSED_BY_PEER, JOIN_SIZE_MAX
from pocketmq.transport.reading_state import Hold, ReadingEvent, ReadingState, after
from pocketmq.transport.tls.contexts import handshake_failure

PIECE_SIZE = 64 * 1024
"""So many bytes are encrypted at a time, as long as the peer reads."""


class TlsConnection(Connection):
    """Gives the transport one piece after the other.

    What a TLS transport is given lies encrypted in the transport beneath it, whose size nobody
    tells: one large answer to a peer that reads nothing would count as sent. Hence the transport
    is asked to say as soon as it holds anything back, and gets nothing more until it is empty: no
    more than two pieces, and what the transport beneath holds back, are uncounted.

    Args:
        clock, handlers, options: as of a `Connection`.
    """

    __slots__ = ("_is_full", "_left", "_left_size")

    _never_answered = "; it has never answered: does it want a certificate of the client?"

    def __init__(
        self, clock: Clock, handlers: Handlers, options: ConnectionOptions | None = None
    ) -> None:
        super().__init__(clock, handlers, options)
        self._is_full = False  # the transport has not sent all that it was given
        self._left: deque[bytes | memoryview] = deque()
        self._left_size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the connection."""
        super().connection_made(transport)
        if not self.is_closing:
            self._transport.set_write_buffer_limits(high=1)

    def set_pause_size(self, size: int) -> None:
        """Sets from how many unsent bytes on the peer counts as slow."""
        self._pause_size = size

    @property
    def unsent_size(self) -> int:
        """Bytes that wait for the peer to read."""
        return self._left_size + super().unsent_size

    def _flush(self) -> None:
        out, size = self._out, self._out_size
        if not out:
            return
        self._out, self._out_size = [], 0
        if self._transport.is_closing():
            return
        self._last_activity = self._monotonic()
        if not self._is_full and size <= JOIN_SIZE_MAX:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            return
        was_slow = self._writable is not None
        self._left.extend(out)
        self._left_size += size
        self._write_pieces()
        if not self._is_full:
            return
        if self.unsent_size > self.limits.write_buffer_max:
            self.cut_off(f"it left more than {self.limits.write_buffer_max} bytes unread")
        elif was_slow and self._slow_readers is not None:
            self._slow_readers.wrote(self, size)
        else:
            self._look_whether_slow()

    def _write_pieces(self) -> None:
        left = self._left
        while left and not self._is_full:
            pieces: list[bytes | memoryview] = []
            size = 0
            while left and size < PIECE_SIZE:
                data = left.popleft()
                room = PIECE_SIZE - size
                if len(data) > room:
                    view = memoryview(data)
                    left.appendleft(view[room:])
                    data = view[:room]
                pieces.append(data)
                size += len(data)
            self._left_size -= size
            self._transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def _look_whether_slow(self) -> None:
        if self.unsent_size > self._pause_size:
            super().pause_writing()

    def pause_writing(self) -> None:
        """Holds further pieces back; a peer for which much is held back is slow."""
        self._is_full = True
        self._look_whether_slow()

    def resume_writing(self) -> None:
        """Writes further pieces; without any left the peer keeps up."""
        self._is_full = False
        self._write_pieces()
        if not self._is_full:
            super().resume_writing()

    def eof_received(self) -> bool:
        """Closes, after all frames that were put off: TLS waits for none of them."""
        self._state = after(self._state, ReadingEvent.PEER_CLOSED)
        if self._state is ReadingState.DRAINING_PUT_OFF:
            self._share = None
            self._holds -= {Hold.PUT_OFF}
            self._take_frames()
        self.close(CLOSED_BY_PEER)
        return False

    def close(self, reason: str = "closed by this side") -> None:
        """Sends what is queued, then closes; a peer that does not read is cut off after a while."""
        if self.is_closing:
            return
        self._flush()
        if self._left:
            self._transport.writelines(self._left)
            self._drop_left()
        super().close(reason)

    def abort(self, reason: str) -> None:
        """Closes at once; what is queued is lost."""
        self._drop_left()
        super().abort(reason)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the connection."""
        self._drop_left()
        failure = None if exc is None else handshake_failure(exc)
        super().connection_lost(exc if failure is None else ConnectionError(failure))

    def _drop_left(self) -> None:
        self._left.clear()
        self._left_size = 0
