"""A client's connection: bytes to calls, and answers to bytes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, cast

import msgspec

from pocketmq.protocol.messages.hosts import join_address
from pocketmq.runtime.clock import Clock
from pocketmq.transport.frame_share import FrameShare
from pocketmq.transport.grpc.call import Call, CallClosed
from pocketmq.transport.grpc.limits import GrpcLimits
from pocketmq.transport.grpc.messages import PREFIX_SIZE, framed
from pocketmq.transport.grpc.request_head import PLAIN_TEXT, RequestHead
from pocketmq.transport.grpc.service import Bidirectional, Kind, Service, Streaming, Unary
from pocketmq.transport.grpc.status import (
    ANSWER_BLOCK,
    OK_TRAILERS,
    GrpcError,
    GrpcStatus,
    error_block,
    error_trailers,
)
from pocketmq.transport.http2.connection import Http2Connection
from pocketmq.transport.http2.frames import ErrorCode
from pocketmq.transport.http2.header_blocks import Fields
from pocketmq.transport.http2.stream import Stream
from pocketmq.transport.peer_log import PeerLog

log = logging.getLogger("pocketmq.transport")

WRITE_PAUSE_SIZE = 64 * 1024
"""From so many unsent bytes on, answers wait and the peer is not read from."""


HANDLER_FAILED = "the handler of %s failed for %s"
SEE_LOG = "the server failed: its log tells why"


class Held:
    """What all connections of a server hold together.

    Attributes:
        size: bytes of incomplete requests.
        calls: open calls.
    """

    __slots__ = ("calls", "size")

    def __init__(self) -> None:
        self.size = self.calls = 0


class GrpcOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the connections of a server share.

    Attributes:
        clock: for time limits.
        service: what is served.
        limits: of each connection.
        peer_log: for peers that break the rules.
        on_open, on_close: called with the connection.
        held: of the server.
        share: of each turn of the loop.
    """

    clock: Clock
    service: Service
    limits: GrpcLimits
    peer_log: PeerLog
    on_open: Callable[[GrpcConnection], object]
    on_close: Callable[[GrpcConnection], object]
    held: Held
    share: FrameShare


class GrpcConnection(asyncio.Protocol):
    """One client.

    Args:
        options: of the server.

    Attributes:
        remote_address: the client's, ``host:port``.
        is_open: whether calls may still be answered.
        limits: of the server.
        monotonic: tells the time.
        idle_since_s: since when it has no calls; None while it has some.
        stalled_since_s: since when the peer has not read; None while it does.
    """

    __slots__ = (
        "_closed",
        "_finishing",
        "_head",
        "_head_fields",
        "_held",
        "_http2",
        "_in_read",
        "_is_flush_due",
        "_is_lost",
        "_is_put_off",
        "_options",
        "_transport",
        "idle_since_s",
        "is_open",
        "limits",
        "monotonic",
        "remote_address",
        "stalled_since_s",
    )

    def __init__(self, options: GrpcOptions) -> None:
        self._options = options
        self.limits = options.limits
        self.monotonic = options.clock.monotonic
        self._http2 = Http2Connection(self, options.limits.http2, self.monotonic)
        self._transport: asyncio.Transport = cast(Any, None)
        self._closed: asyncio.Future[None] | None = None
        self._in_read = self._finishing = self._is_flush_due = False
        self._is_lost = self._is_put_off = False
        self._held = 0
        self._head: RequestHead | None = None
        self._head_fields: Fields | None = None
        self.is_open = False
        self.remote_address = ""
        self.idle_since_s: float | None = self.monotonic()
        self.stalled_since_s: float | None = None

    # --- asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Greets the client."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.remote_address = join_address(*peer[:2]) if peer else ""
        self.is_open = True
        is_tls = transport.get_extra_info("sslcontext") is not None
        # TLS does not tell what it holds back: there, anything unsent counts.
        self._transport.set_write_buffer_limits(high=1 if is_tls else WRITE_PAUSE_SIZE)
        self._options.on_open(self)
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Takes bytes; all answers that are there at once leave in one write."""
        share = self._options.share
        self._in_read = True
        share.took(self._http2.receive(data, max(share.frames_left, 0)))
        self._in_read = False
        self._flush()
        if self._http2.is_interrupted and not self._is_put_off:
            self._put_off()
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def _put_off(self) -> None:
        self._is_put_off = True
        self._options.share.put_off(self)

    def take_more(self) -> None:
        """Takes the frames that were put off to this turn of the loop."""
        self._is_put_off = False
        if self._http2.is_held or self._transport.is_closing():
            return  # `resume_writing` goes on
        self.data_received(b"")
        if not self._is_put_off and not self._http2.is_held and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        """Closes: a client that ends its side waits for no answers."""
        return False

    def pause_writing(self) -> None:
        """Lets answers wait, and does not read what would bring more of them."""
        self._http2.is_held = True
        self.stalled_since_s = self.monotonic()
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Goes on."""
        self._http2.is_held = False
        self.stalled_since_s = None
        if not self._transport.is_closing():
            if not self._http2.is_interrupted:
                self._transport.resume_reading()
            elif not self._is_put_off:
                self._put_off()
            self._http2.pump()
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends all calls."""
        self.is_open, self._is_lost = False, True
        self._http2.lost()
        if self._closed is not None and not self._closed.done():
            self._closed.set_result(None)
        self._options.on_close(self)

    def _flush(self) -> None:
        if self._in_read:
            return
        self._is_flush_due = False
        http2 = self._http2
        while http2.out and not self._transport.is_closing():
            self._transport.write(http2.take())
            if not http2.queued_size or http2.is_held:
                break
            http2.pump()
        if http2.is_over:
            self._over()
        elif self._finishing and not http2.streams:
            self._transport.close()

    def _flush_soon(self) -> None:
        """Sends what there is at the end of this turn, in one write."""
        if not self._in_read and not self._is_flush_due:
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _over(self) -> None:
        fault = self._http2.fault
        if fault is not None and self.is_open:
            address = self.remote_address
            self._options.peer_log.warning(address, "gRPC: closing %s: %s", address, fault)
        self.is_open = False
        self._transport.close()

    # --- the end

    @property
    def is_idle(self) -> bool:
        """Whether there are no calls."""
        return not self._http2.streams

    @property
    def has_greeted(self) -> bool:
        """Whether the client's first frame is there."""
        return self._http2.has_settings

    def close(self) -> None:
        """Lets the open calls end, takes no further ones, and closes then."""
        self._http2.shut_down()
        self._finishing = True
        self._flush()

    def abort(self, reason: str) -> None:
        """Closes at once."""
        log.debug("gRPC: aborting %s: %s", self.remote_address, reason)
        self.is_open = False
        self._transport.abort()

    async def wait_closed(self) -> None:
        """Returns when the connection is gone."""
        if self._is_lost:
            return
        if self._closed is None:
            self._closed = asyncio.get_running_loop().create_future()
        await self._closed

    @property
    def unsent_size(self) -> int:
        """Bytes of answers that wait for the client to read."""
        return self._http2.queued_size + self._transport.get_write_buffer_size()

    def refuse_unfinished(self, begun_before_s: float) -> None:
        """Refuses calls that began so long ago and have no complete request."""
        for stream in list(self._http2.streams.values()):
            call: Call | None = stream.context
            if (
                call is not None
                and call.begun_s < begun_before_s
                and call.task is None
                and call.is_open
                and call.kind is not Kind.BIDIRECTIONAL
            ):
                text = f"the request is not complete after {self.limits.request_s:g} s"
                self._fail(call, GrpcError(GrpcStatus.DEADLINE_EXCEEDED, text))
                self._flush_soon()

    # --- requests

    def on_request(self, stream: Stream, fields: Fields) -> None:
        """Begins a call."""
        self.idle_since_s = None
        if fields is self._head_fields and self._head is not None:
            head = self._head
        else:
            head = RequestHead(fields, self._options.service)
            is_repeated = self._http2.may_repeat(fields)
            self._head, self._head_fields = (head, fields) if is_repeated else (None, None)
        seconds, now_s, held = head.timeout_s, self.monotonic(), self._options.held
        deadline_s = None if seconds is None else now_s + seconds
        stream.context = call = Call(self, stream, head, deadline_s, now_s)
        held.calls += 1
        if head.error is not None:
            self._fail(call, head.error)
        elif held.calls > self.limits.calls_max:
            text = f"{self.limits.calls_max} calls are open, which is the limit: try again"
            self._fail(call, GrpcError(GrpcStatus.RESOURCE_EXHAUSTED, text))
        elif head.kind is Kind.BIDIRECTIONAL:
            self._run(call, cast(Bidirectional, head.handler), call)

    def on_data(self, stream: Stream, data: bytes, is_end: bool) -> None:
        """Takes a part of a request."""
        call: Call = stream.context
        if is_end and call.is_whole_request(data) and len(data) <= self.limits.message_max:
            self._request(call, data[PREFIX_SIZE:])
            return
        if call.kind is Kind.PLAIN:
            self._http2.credit(stream, len(data))
            if is_end:
                self._http2.headers(stream, call.head.plain_block)
                self._http2.send(stream, PLAIN_TEXT)
                self._http2.finish(stream, b"")
            return
        self._arm(call)
        try:
            self._read(call, data, is_end)
        except GrpcError as error:
            self._fail(call, error)

    def _read(self, call: Call, data: bytes, is_end: bool) -> None:
        before = call.held_size
        try:
            credit = call.feed(data, is_end, self.limits.message_max)
        finally:
            self._hold(call.held_size - before)
        if not is_end:
            self._http2.credit(call.stream, credit)
        if call.kind is not Kind.BIDIRECTIONAL and is_end:
            self._request(call, call.only_message())

    def _hold(self, change: int) -> None:
        self._held += change
        held, limits = self._options.held, self.limits
        held.size += change
        if change > 0 and (
            self._held > limits.unfinished_of_connection_max or held.size > limits.unfinished_max
        ):
            raise GrpcError(
                GrpcStatus.RESOURCE_EXHAUSTED, "too much of unfinished requests is held: try again"
            )

    def _request(self, call: Call, message: bytes) -> None:
        if call.kind is Kind.STREAMING:
            self._run(call, cast(Streaming, call.head.handler), call, message)
            return
        try:
            answer = cast(Unary, call.head.handler)(call, message)
        except GrpcError as error:
            self._fail(call, error)
        except Exception:
            log.exception(HANDLER_FAILED, call.path, call.remote_address)
            self._fail(call, GrpcError(GrpcStatus.INTERNAL, SEE_LOG))
        else:
            if isinstance(answer, bytes):
                self._answer(call, answer)
            else:
                self._wait_for(call, answer)

    def _run(self, call: Call, handler: Callable[..., Awaitable[object]], *args: object) -> None:
        try:
            running = handler(*args)
        except GrpcError as error:
            self._fail(call, error)
        except Exception:
            log.exception(HANDLER_FAILED, call.path, call.remote_address)
            self._fail(call, GrpcError(GrpcStatus.INTERNAL, SEE_LOG))
        else:
            self._wait_for(call, running)

    def _wait_for(self, call: Call, running: Awaitable[object]) -> None:
        call.task = asyncio.ensure_future(running)
        call.task.add_done_callback(lambda done: self._done(call, done))
        self._arm(call)

    def _arm(self, call: Call) -> None:
        seconds = call.remaining_s()
        if seconds is not None and call.timer is None:
            call.timer = self._options.clock.call_later(seconds, self._expire, call)

    def _expire(self, call: Call) -> None:
        if call.stream.queue:  # nobody takes what comes before the status
            self._http2.reset(call.stream.id, ErrorCode.CANCEL)
        else:
            self._fail(call, GrpcError(GrpcStatus.DEADLINE_EXCEEDED, "the deadline has passed"))
        self._flush()

    def _done(self, call: Call, done: asyncio.Future[object]) -> None:
        error = None if done.cancelled() else done.exception()
        if not call.is_open:
            if error is not None and not isinstance(error, (GrpcError, CallClosed)):
                log.error(HANDLER_FAILED, call.path, call.remote_address, exc_info=error)
            return
        if done.cancelled():
            self._fail(call, GrpcError(GrpcStatus.CANCELLED, "the server gave the call up"))
        elif isinstance(error, GrpcError):
            self._fail(call, error)
        elif error is not None:
            log.error(HANDLER_FAILED, call.path, call.remote_address, exc_info=error)
            self._fail(call, GrpcError(GrpcStatus.INTERNAL, SEE_LOG))
        elif call.kind is Kind.UNARY:
            self._answer(call, cast(bytes, done.result()))
        else:
            messages = cast("Sequence[bytes] | None", done.result())
            self._end(call, b"".join(map(framed, messages or ())))
        self._flush_soon()

    def _end(self, call: Call, data: bytes) -> None:
        """Ends a stream of answers with its last messages."""
        if data and not call.has_begun:
            self._http2.answer(call.stream, ANSWER_BLOCK, data, OK_TRAILERS)
            return
        if not call.has_begun:
            self._http2.headers(call.stream, ANSWER_BLOCK)
        if data:
            self._http2.send(call.stream, data)
        self._http2.finish(call.stream, OK_TRAILERS)

    def _answer(self, call: Call, message: bytes) -> None:
        if call.is_open:
            self._http2.answer(call.stream, ANSWER_BLOCK, framed(message), OK_TRAILERS)

    def _fail(self, call: Call, error: GrpcError) -> None:
        if not call.is_open:
            return
        block = error_trailers(error) if call.has_begun else error_block(error)
        self._http2.finish(call.stream, block)

    def write_message(self, stream: Stream, data: bytes, is_first: bool) -> None:
        """Sends a message of a stream of answers; those of one turn leave in one write."""
        if is_first:
            self._http2.headers(stream, ANSWER_BLOCK)
        self._http2.send(stream, data)
        self._flush_soon()

    def consumed(self, call: Call, size: int) -> None:
        """A handler took a message: its client may send more."""
        if call.is_open:
            self._http2.credit(call.stream, size)
            self._flush()

    def on_drained(self, stream: Stream) -> None:
        """Goes on with a handler that waits for room."""
        if stream.context is not None:
            stream.context.drained()

    def on_closed(self, stream: Stream, code: ErrorCode | None) -> None:
        """Ends a call, and its handler with it."""
        call: Call | None = stream.context
        stream.context = None
        if not self._http2.streams:
            self.idle_since_s = self.monotonic()
        if call is None:
            return
        self._options.held.calls -= 1
        if call.held_size:
            self._hold(-call.held_size)
        callbacks = call.close()
        if call.task is not None and not call.task.done():
            call.task.cancel()
        for callback in callbacks:
            try:
                callback()
            except Exception:
                log.exception(HANDLER_FAILED, call.path, call.remote_address)
