"""One connection between two peers; both may send requests on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, cast

import msgspec

from pocketmq.protocol import frames
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command
from pocketmq.protocol.errors import (
    ContentError,
    FrameError,
    OperatingError,
    ResponseError,
    UsageError,
)
from pocketmq.protocol.hosts import encode_host, join_address
from pocketmq.transport.clock import Clock, Timer, within
from pocketmq.transport.errors import CallTimeoutError, ConnectionClosedError
from pocketmq.transport.permits import ASYNC_PERMITS, ONEWAY_PERMITS, Permits
from pocketmq.transport.response_table import Answer, OnAnswer, ResponseTable

log = logging.getLogger("pocketmq.transport")

GREETING_FIELD = "pocketmq"
"""A loose field by which PocketMQ peers know each other; RocketMQ ignores it."""

GREETING = {GREETING_FIELD: "1"}

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
"""RocketMQ's words for a full request queue: its clients know them by heart."""

IDLE_TOLERANCE_S = 1e-6
"""Less than that is left by rounding only; a timer for it may fire without any time gone by."""

JOIN_SIZE_MAX = 64 * 1024
"""Up to this many bytes are copied together before they are written; more go part by part."""


class Limits(msgspec.Struct, frozen=True):
    """What one connection may take.

    Attributes:
        frame_size_max: bytes of one frame, either way in.
        idle_timeout_s: a connection without traffic for so long is closed.
        write_pause_size: unsent bytes from which on no further requests are read.
        write_buffer_max: unsent bytes at which a peer that does not read is cut off.
        close_timeout_s: how long a peer may take to read its last answers after `close`.
        tasks_max: requests of the peer that may wait for their handlers together.
    """

    frame_size_max: int = frames.FRAME_SIZE_MAX
    idle_timeout_s: float = 120.0
    write_pause_size: int = 1024 * 1024
    write_buffer_max: int = 64 * 1024 * 1024
    close_timeout_s: float = 3.0
    tasks_max: int = 16_384

    def __post_init__(self) -> None:
        """Checks that the limits do not contradict each other.

        Raises:
            UsageError: a peer would be cut off before writing to it pauses.
        """
        if self.write_buffer_max < self.write_pause_size:
            raise UsageError(
                f"write_buffer_max is {self.write_buffer_max}: it must not be below "
                f"write_pause_size, {self.write_pause_size}"
            )


Reply = Command | None | Awaitable[Command | None]
Handler = Callable[[Command, "Connection"], Reply]
"""Answers a request now (a command), later (an awaitable), or on its own by `respond` (None).

A handler refuses with a `ResponseError`, whose code and remark become the answer.
"""

Handlers = Mapping[int, Handler]
BeforeRequest = Callable[[Command], object]


class Chunks(Protocol):
    """Told where the handling of one chunk of one connection's stream begins and ends.

    What the requests of a chunk ask for can so be done together, before their answers leave.
    """

    def begin_chunk(self) -> None:
        """The requests of a chunk are about to be handled."""

    def end_chunk(self) -> None:
        """They have been handled."""


class Connection(asyncio.Protocol):
    """Frames in and out, answers paired with requests, requests given to handlers.

    Args:
        clock: for deadlines and the idle limit.
        handlers: by request code, for what the peer asks.
        limits: what the connection may take.
        greets: say at the start that this is PocketMQ; the dialling side does.
        oneway_permits, async_permits: shared by the connections of one owner.
        on_close: called once when the connection is gone.
        on_open: called once when it is there.
        chunks: told when a chunk begins and ends.
        before_request: called with each request to the peer before it is encoded, and may change it
            (RocketMQ's `RPCHook#doBeforeRequest`).
    """

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers,
        *,
        limits: Limits | None = None,
        greets: bool = False,
        oneway_permits: Permits | None = None,
        async_permits: Permits | None = None,
        on_open: Callable[[Connection], object] | None = None,
        on_close: Callable[[Connection], object] | None = None,
        chunks: Chunks | None = None,
        before_request: BeforeRequest | None = None,
    ) -> None:
        self.clock = clock
        self._before_request = before_request
        self.limits = limits or Limits()
        self.codec = Codec.JSON
        self.peer_is_pocketmq = False
        self.remote_address = "unknown"
        self.remote_host = b""
        self.close_reason = "closed by this side"
        self.attributes: dict[str, Any] = {}
        self._handlers = handlers
        self._greets = greets
        self._greeting_due = greets
        self._first_request = not greets
        self._oneway_permits = oneway_permits or Permits("one-way", ONEWAY_PERMITS)
        self._async_permits = async_permits or Permits("async", ASYNC_PERMITS)
        self._on_open, self._on_close = on_open, on_close
        self._chunks = chunks
        self._in_chunk = False
        self._parser = frames.FrameParser(self.limits.frame_size_max)
        self._loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._out_size = 0
        self._writable: asyncio.Future[None] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: Timer | None = None  # for the idle limit, then for the end of a close
        self._last_activity = clock.monotonic()

    # -- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the connection."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is of no common class
        self._transport.set_write_buffer_limits(high=self.limits.write_pause_size)
        peer = transport.get_extra_info("peername")
        if peer:
            host, port = peer[0], peer[1]
            if host.startswith("::ffff:"):
                host = host[7:]
            self.remote_address = join_address(host, port)
            self.remote_host = encode_host(host, port)
        self._table = ResponseTable(self.clock, self.remote_address, self._async_permits)
        self._timer = self.clock.call_later(self.limits.idle_timeout_s, self._check_idle)
        if self._on_open is not None:
            self._on_open(self)

    def data_received(self, data: bytes) -> None:
        """Takes a chunk of the stream."""
        self._last_activity = self.clock.monotonic()
        self._parser.feed(data)
        self._take_chunk()

    def _take_chunk(self) -> None:
        # Answers given while a chunk is handled leave together at its end, in this very turn.
        self._in_chunk = True
        chunks = self._chunks
        try:
            if chunks is None:
                self._process()
            else:
                chunks.begin_chunk()
                try:
                    self._process()
                finally:
                    chunks.end_chunk()
        finally:
            self._in_chunk = False
        if self._out:
            self._flush()

    def _process(self) -> None:
        next_command, is_closing = self._parser.next_command, self._transport.is_closing
        try:
            # A peer that does not read its answers is not asked for more work; but the dialling
            # side always takes the answers to its own requests.
            while self._writable is None or self._greets:
                command = next_command()
                if command is None:
                    return
                if command.flag & FLAG_RESPONSE:
                    self._take_response(command)
                else:
                    self._take_request(command)
                if is_closing():
                    return
        except FrameError as e:
            log.warning("closing the connection of %s: %s", self.remote_address, e)
            self.abort(str(e))

    def pause_writing(self) -> None:
        """The peer does not keep up: stop reading its requests."""
        if self._writable is None:
            self._writable = self._loop.create_future()
            if not self._greets and not self.is_closing:
                self._transport.pause_reading()

    def resume_writing(self) -> None:
        """The peer keeps up again: go on with what was left."""
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if not self.is_closing:
            if not self._greets:
                self._transport.resume_reading()
            self._take_chunk()

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends everything that waited for the peer."""
        if exc is not None:
            self.close_reason = str(exc) or type(exc).__name__
        elif not self.is_closing:
            self.close_reason = "closed by the peer"
        if self._timer is not None:
            self._timer.cancel()
        error = ConnectionClosedError(self.remote_address, self.close_reason)
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)
        if not self._closed.done():
            self._closed.set_result(None)
        for task in self._tasks:
            task.cancel()
        self._table.fail_all(error)
        if self._on_close is not None:
            self._on_close(self)

    def eof_received(self) -> bool:
        """The peer is done: close."""
        self.close("closed by the peer")
        return False

    # -- requests to the peer -----------------------------------------------------------------

    def send_request(self, command: Command, timeout_ms: float, on_answer: OnAnswer) -> None:
        """Sends a request; `on_answer` gets the answer or the error that ended the call.

        Raises:
            TooMuchRequestError: too many calls are under way.
            ConnectionClosedError: the connection is closed or closing.
            UsageError: the request does not fit in a frame.
        """
        self._check_open()
        command.opaque = self._table.add(on_answer, timeout_ms)
        try:
            self._write_request(command)
        except BaseException:
            self._table.forget(command.opaque)
            raise

    async def call(self, command: Command, timeout_ms: float) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Args:
            command: the request; its opaque and codec are set here.
            timeout_ms: how long sending and answering may take together.

        Raises:
            CallTimeoutError, ConnectionClosedError, TooMuchRequestError.
        """
        if self._writable is not None:
            timeout_ms = await self._wait_writable(timeout_ms)
        future: asyncio.Future[Answer] = self._loop.create_future()

        def on_answer(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        self.send_request(command, timeout_ms, on_answer)
        opaque = command.opaque
        try:
            answer = await future
        except asyncio.CancelledError:
            self._table.forget(opaque)
            raise
        if isinstance(answer, OperatingError):
            # One error ends all calls of a lost connection: each raise begins a trace of its own.
            raise answer.with_traceback(None)
        return answer

    async def _wait_writable(self, timeout_ms: float) -> float:
        """Waits until the peer reads again; returns what is left of the time."""
        deadline = self.clock.monotonic() + timeout_ms / 1000
        while self._writable is not None:
            left_s = deadline - self.clock.monotonic()
            try:
                await within(self.clock, left_s, asyncio.shield(self._writable))
            except TimeoutError:
                raise CallTimeoutError(self.remote_address, timeout_ms) from None
        return (deadline - self.clock.monotonic()) * 1000

    async def oneway(self, command: Command) -> None:
        """Sends a request that is never answered; waits only while the peer does not read.

        Raises:
            ConnectionClosedError, TooMuchRequestError.
        """
        self._oneway_permits.acquire()
        try:
            while self._writable is not None:
                await asyncio.shield(self._writable)
            self._check_open()
            command.flag |= FLAG_ONEWAY
            command.opaque = 0
            self._write_request(command)
        finally:
            self._oneway_permits.release()

    def notify(self, command: Command) -> None:
        """Sends a one-way request now, or not at all if the peer does not read."""
        if self._writable is None and not self.is_closing:
            command.flag |= FLAG_ONEWAY
            self._write_request(command)

    def _write_request(self, command: Command) -> None:
        command.codec = self.codec
        if self._before_request is not None:
            self._before_request(command)
        if self._greeting_due:
            command.extra = {**(command.extra or {}), **GREETING}
        self.write(frames.encode(command))

    # -- requests of the peer -----------------------------------------------------------------

    def respond(self, request: Command, response: Command) -> None:
        """Answers a request, in the codec that it came in."""
        if request.flag & FLAG_ONEWAY or self._transport.is_closing():
            return
        response.opaque = request.opaque
        response.flag |= FLAG_RESPONSE
        response.codec = request.codec
        if self._greeting_due:
            response.extra = {**(response.extra or {}), **GREETING}
        data = frames.encode(response)
        if not self._greets:  # the dialling side greets until it has seen an answer
            self._greeting_due = False
        self.write(data)

    def refuse(self, request: Command, code: int, remark: str) -> None:
        """Answers a request with an error."""
        self.respond(request, Command(code, remark=remark))

    def _take_request(self, request: Command) -> None:
        if self._first_request:
            self._first_request = False
            self._meet(request)
        handler = self._handlers.get(request.code)
        if handler is None:
            log.info("request code %d of %s is not supported", request.code, self.remote_address)
            self.refuse(
                request,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {request.code} not supported",
            )
            return
        if len(self._tasks) >= self.limits.tasks_max:
            self.refuse(request, ResponseCode.SYSTEM_BUSY, OVERLOAD)
            return
        try:
            reply = handler(request, self)
            if reply is None:
                return
            if isinstance(reply, Command):
                self.respond(request, reply)
                return
        except Exception as e:  # noqa: BLE001 (the border between a connection and its handlers)
            self._refuse_for(request, e)
            return
        task = self._loop.create_task(self._respond_later(request, reply))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _respond_later(self, request: Command, reply: Awaitable[Command | None]) -> None:
        try:
            response = await reply
            if response is not None:
                self.respond(request, response)
        except Exception as e:  # noqa: BLE001 (the border between a connection and its handlers)
            self._refuse_for(request, e)

    def _refuse_for(self, request: Command, error: Exception) -> None:
        if isinstance(error, ResponseError):
            self.refuse(request, error.code, error.remark or "")
        elif isinstance(error, ContentError):
            log.info("unreadable request %d of %s: %s", request.code, self.remote_address, error)
            self.refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
        else:
            log.error("request %d of %s failed", request.code, self.remote_address, exc_info=error)
            self.refuse(request, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _take_response(self, response: Command) -> None:
        if self._greeting_due and self._greets:
            self._greeting_due = False
            self._meet(response)
        if not self._table.resolve(response):
            log.debug("a late answer of %s to %d", self.remote_address, response.opaque)

    def _meet(self, first: Command) -> None:
        """Learns from the peer's first frame whether it understands PocketMQ's own codec."""
        try:
            known = GREETING_FIELD in first.fields
        except ContentError:  # whoever reads that header refuses it
            known = False
        if known:
            self.peer_is_pocketmq = True
            self.codec = Codec.MSGPACK
            if not self._greets:
                self._greeting_due = True

    # -- bytes out, and the end ---------------------------------------------------------------

    def write(self, data: bytes) -> None:
        """Queues a frame; all frames of one turn of the loop leave together."""
        out = self._out
        out.append(data)
        self._out_size += len(data)
        if self._out_size > self.limits.write_pause_size:
            self._flush()  # now: the transport tells whether the peer keeps up with this turn
        elif len(out) == 1 and not self._in_chunk:
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        out, size = self._out, self._out_size
        if not out:
            return
        self._out, self._out_size = [], 0
        if self._transport.is_closing():
            return
        self._last_activity = self.clock.monotonic()
        if len(out) == 1:
            self._transport.write(out[0])
        elif size <= JOIN_SIZE_MAX:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)
        # The limit lies above the one at which writing pauses: there is nothing to ask before.
        if (
            self._writable is not None
            and self._transport.get_write_buffer_size() > self.limits.write_buffer_max
        ):
            reason = f"it left more than {self.limits.write_buffer_max} bytes unread"
            log.warning("closing the connection of %s: %s", self.remote_address, reason)
            self.abort(reason)

    @property
    def is_closing(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._transport.is_closing()

    @property
    def pending_calls(self) -> int:
        """How many requests wait for an answer."""
        return len(self._table)

    @property
    def unsent_size(self) -> int:
        """Bytes that wait for the peer to read."""
        return self._out_size + self._transport.get_write_buffer_size()

    def close(self, reason: str = "closed by this side") -> None:
        """Sends what is queued, then closes; a peer that does not read is cut off after a while.

        May be called again.
        """
        if self.is_closing:
            return
        self.close_reason = reason
        self._flush()
        self._transport.close()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.clock.call_later(
            self.limits.close_timeout_s, self.abort, f"{reason}; it did not read its last answers"
        )

    def abort(self, reason: str) -> None:
        """Closes at once; what is queued is lost. May be called again."""
        if not self._closed.done():
            self.close_reason = reason
            self._out, self._out_size = [], 0
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Returns when the connection is gone."""
        await asyncio.shield(self._closed)

    def _check_open(self) -> None:
        if self.is_closing:
            raise ConnectionClosedError(self.remote_address, self.close_reason)

    def _check_idle(self) -> None:
        quiet_s = self.clock.monotonic() - self._last_activity
        left_s = self.limits.idle_timeout_s - quiet_s
        if left_s <= IDLE_TOLERANCE_S:
            log.info("closing the connection of %s: idle for %.0f s", self.remote_address, quiet_s)
            self.close(f"idle for {quiet_s:.0f} s")
        else:
            self._timer = self.clock.call_later(left_s, self._check_idle)

    def __repr__(self) -> str:
        return f"<Connection {self.remote_address} pending={self.pending_calls}>"
