"""Answers that go on: parts are sent as they come, at the pace of the client that reads them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import msgspec
from msgspec import Struct
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from pocketmq.runtime.clock import Clock, within

log = logging.getLogger("pocketmq.console")

EVENTS = "text/event-stream"
"""The media type of server-sent events."""

UNREAD_S = 30.0
"""Seconds after which a client that takes nothing of an answer is left."""


@dataclass
class Stream:
    """An answer that goes on.

    Parts are made when the client has taken the earlier ones: nothing is kept for a client that
    does not read, but for what the connection's buffer holds.

    Attributes:
        parts: makes the parts.
        clock: measures how long a client reads nothing.
        closed: called once when the answer has ended, in whatever way.
    """

    parts: AsyncGenerator[bytes, None]
    clock: Clock
    closed: list[Callable[[], object]] = field(default_factory=list)


class StreamResponse(Response):
    """Sends a stream.

    Args:
        stream: the parts.
        status: the HTTP status.
        media_type: of the parts.
        headers: further ones.
    """

    def __init__(
        self,
        stream: Stream,
        status: int,
        media_type: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        kept = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **(headers or {})}
        super().__init__(None, status, kept, media_type)
        del self.headers["content-length"]
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends parts until they end, the client goes, or takes nothing for long."""
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_until_gone(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            for task in (sending, gone):
                task.cancel()
            await asyncio.gather(sending, gone, return_exceptions=True)
            await self._stream.parts.aclose()
            for closed in self._stream.closed:
                closed()

    async def _send(self, send: Send) -> None:
        start = {
            "type": "http.response.start", "status": self.status_code, "headers": self.raw_headers
        }  # fmt: skip
        await send(start)
        clock = self._stream.clock.machine
        try:
            async for part in self._stream.parts:
                await within(clock, UNREAD_S, send(_body(part, more=True)))
        except TimeoutError:
            log.warning("a client has read nothing of an answer for %g s: it is left", UNREAD_S)
            return
        await send(_body(b"", more=False))


def _body(part: bytes, *, more: bool) -> Message:
    return {"type": "http.response.body", "body": part, "more_body": more}


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def event(data: Struct) -> bytes:
    """Encodes a server-sent event; JSON has no line breaks."""
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


BEAT = b": \n\n"
"""A comment, which readers of events pass over; proxies and servers see that the peer lives."""
