"""Connections of browsers and programs, bounded in number and in what they let wait."""

from __future__ import annotations

import asyncio
from typing import ClassVar

import h11
import msgspec
from uvicorn.protocols.http.h11_impl import H11Protocol

from pocketmq.console.web.problems import MEDIA_TYPE, Problem
from pocketmq.console.web.secure_headers import NOT_KEPT, SECURE_HEADERS
from pocketmq.runtime.clock import Clock, SystemClock, Timer

CONNECTIONS_MAX = 200
"""Connections at a time; further ones are closed at once."""

REQUEST_S = 30.0
"""Seconds for which a connection may take to send a whole request."""

UNTAKEN_S = 60.0
"""Seconds for which a connection may leave an answer unread."""

_BAD_REQUEST = msgspec.json.encode(
    Problem(
        title="The request is no HTTP",
        status=400,
        detail="the request does not follow HTTP/1.1",
        remedy="use a client that speaks HTTP/1.1",
    )
)


class BoundedConnection(H11Protocol):
    """A connection that is closed if its peer lets it wait: uvicorn itself waits for ever.

    Attributes:
        clock: tells how long.
    """

    clock: ClassVar[Clock] = SystemClock()

    _incomplete: Timer | None = None
    _untaken: Timer | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begins to wait for a request, unless there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > CONNECTIONS_MAX:
            transport.abort()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Takes bytes of a request."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """Begins to wait for the next request."""
        super().on_response_complete()
        self._watch()

    def pause_writing(self) -> None:
        """Begins to wait for the peer to take what it was sent."""
        super().pause_writing()
        if self._untaken is None:
            self._untaken = self.clock.machine.call_later(UNTAKEN_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The peer has taken enough."""
        super().resume_writing()
        self._end_untaken()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits for nothing any more."""
        self._end_incomplete()
        super().connection_lost(exc)
        self._end_untaken()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP."""
        headers = {
            "Content-Type": MEDIA_TYPE, "Connection": "close",
            "Content-Length": str(len(_BAD_REQUEST)), "Cache-Control": NOT_KEPT, **SECURE_HEADERS,
        }  # fmt: skip
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()  # in the middle of an answer
            return
        for event in (
            h11.Response(status_code=400, headers=pairs, reason=b"Bad Request"),
            h11.Data(data=_BAD_REQUEST),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _watch(self) -> None:
        """Has the connection closed in time while its request is not complete."""
        is_waiting = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if not is_waiting or self.transport.is_closing():
            self._end_incomplete()
        elif self._incomplete is None:
            self._incomplete = self.clock.machine.call_later(REQUEST_S, self.transport.abort)

    def _end_incomplete(self) -> None:
        if self._incomplete is not None:
            self._incomplete.cancel()
            self._incomplete = None

    def _end_untaken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None
