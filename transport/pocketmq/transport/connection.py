"""One connection between two peers, each of which may send requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ContentError, MessageSizeError, OperatingError, ResponseError
from pocketmq.protocol.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command
from pocketmq.protocol.wire.success_frame import success_frame
from pocketmq.runtime.clock import Clock, within
from pocketmq.runtime.loop_watch import LoopWatch
from pocketmq.transport.errors import CallTimeoutError, ConnectionClosedError
from pocketmq.transport.frame_stream import CLOSED_BY_PEER, FrameStream, FrameStreamOptions
from pocketmq.transport.permits import ASYNC_PERMITS, ONEWAY_PERMITS, Permits
from pocketmq.transport.response_table import Answer, OnAnswer, ResponseTable

log = logging.getLogger("pocketmq.transport")

GREETING_FIELD = "pocketmq"
"""A loose field by which PocketMQ's peers recognise each other; RocketMQ ignores it."""

GREETING = {GREETING_FIELD: "1"}

CLIENT_ID = "client_id"
"""The attribute of a connection that holds the client id of its peer."""

OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"
"""RocketMQ's text for a full request queue, which its clients look for."""

Reply = Command | None | Awaitable[Command | None]
Handler = Callable[[Command, "Connection"], Reply]
"""Answers a request now (a command), later (an awaitable), or on its own by `respond` (None).

A handler refuses with a `ResponseError`, whose code and remark become the answer.
"""

Handlers = Mapping[int, Handler]
"""Handlers by request code; that of `UNKNOWN_CODE`, if there is one, gets what has no other."""

UNKNOWN_CODE = -1
"""Stands in a table of handlers for all codes that are not in it."""
BeforeRequest = Callable[[Command], object]


def refuse_unknown(request: Command, connection: Connection) -> Command:
    """Answers a request whose code nobody knows."""
    log.info("request code %d of %s is not supported", request.code, connection.remote_address)
    return Command(
        ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
        remark=f" request type {request.code} not supported",
    )


class ConnectionOptions(FrameStreamOptions, frozen=True, kw_only=True):
    """What the connections of one server or pool have in common, besides `FrameStreamOptions`.

    The dialling side (`dials`) says in its first requests that it is PocketMQ.

    Attributes:
        oneway_permits, async_permits: bound the calls under way on all these connections together.
        on_open: called with a connection once it is there.
        on_close: called with a connection once it is gone.
        before_request: called in order with each request to a peer before it is encoded; each may
            change the request (RocketMQ's `RPCHook#doBeforeRequest`).
        watch: notified of each request of a peer before the request is handled.
    """

    oneway_permits: Permits = msgspec.field(
        default_factory=lambda: Permits("one-way", ONEWAY_PERMITS)
    )
    async_permits: Permits = msgspec.field(default_factory=lambda: Permits("async", ASYNC_PERMITS))
    on_open: Callable[[Connection], object] | None = None
    on_close: Callable[[Connection], object] | None = None
    before_request: tuple[BeforeRequest, ...] = ()
    watch: LoopWatch | None = None


class Connection(FrameStream):
    """Gives the requests of a peer to handlers, and pairs the peer's answers with own requests.

    Args:
        clock: for deadlines and the idle limit.
        handlers: by request code, for what the peer asks.
        options: what it has in common with the other connections of its owner.

    Attributes:
        attributes: what handlers and owners keep with the connection.
        codec: of the headers of requests to the peer.
        greeting_due: whether the next frame must say that this is PocketMQ; `respond` sees to it.
        peer_is_pocketmq: whether the peer has said that it is PocketMQ.
    """

    __slots__ = (
        "_async_permits",
        "_before_request",
        "_first_request",
        "_handlers",
        "_on_close",
        "_on_open",
        "_oneway_permits",
        "_table",
        "_tasks",
        "_watch",
        "attributes",
        "codec",
        "greeting_due",
        "peer_is_pocketmq",
    )

    _never_answered = "; it has never answered: does it speak TLS only?"

    def __init__(
        self, clock: Clock, handlers: Handlers, options: ConnectionOptions | None = None
    ) -> None:
        options = options or ConnectionOptions()
        super().__init__(clock, options)
        self._watch = options.watch
        self._before_request = options.before_request
        self.codec = Codec.JSON
        self.peer_is_pocketmq = False
        self.attributes: dict[str, Any] = {}
        self._handlers = handlers
        self.greeting_due = options.dials
        self._first_request = not options.dials
        self._oneway_permits, self._async_permits = options.oneway_permits, options.async_permits
        self._on_open, self._on_close = options.on_open, options.on_close
        self._tasks: dict[asyncio.Task[None], None] = {}

    # -- asyncio.Protocol ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the connection, and calls `on_open`."""
        super().connection_made(transport)
        self._table = ResponseTable(self.clock, self.remote_address, self._async_permits)
        if self._on_open is not None:
            self._on_open(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Ends the calls and handlers that wait for the peer, and calls `on_close`."""
        super().connection_lost(exc)
        for task in self._tasks:
            task.cancel()
        if exc is not None or self.close_reason == CLOSED_BY_PEER:
            self._hint_at_tls()
        self._table.fail_all(ConnectionClosedError(self.remote_address, self.close_reason))
        if self._on_close is not None:
            self._on_close(self)

    def _hint_at_tls(self) -> None:
        """Says what may be wrong with a peer that has closed before it answered anything."""
        if self._dials and self.greeting_due:
            self.close_reason += self._never_answered

    def _check_open(self) -> None:
        if self.is_closing and self.close_reason == CLOSED_BY_PEER:
            self._hint_at_tls()
        super()._check_open()

    # -- requests to the peer -----------------------------------------------------------------

    def send_request(self, command: Command, timeout_ms: float, on_answer: OnAnswer) -> None:
        """Sends a request; `on_answer` gets the answer or the error that ended the call.

        Raises:
            TooMuchRequestError: too many calls are under way.
            ConnectionClosedError: the connection is closed or closing.
            UsageError: the request does not fit in a frame.
        """
        if self._transport.is_closing():
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
        if self.greeting_due:
            command.extra = {**(command.extra or {}), **GREETING}
        for before_request in self._before_request:  # nothing is added to what they have signed
            before_request(command)
        self.write_command(command)

    # -- requests of the peer -----------------------------------------------------------------

    def respond(self, request: Command, response: Command) -> None:
        """Answers a request, in the codec in which it came."""
        if request.flag & FLAG_ONEWAY or self._transport.is_closing():
            return
        response.opaque = request.opaque
        response.flag |= FLAG_RESPONSE
        response.codec = request.codec
        if self.greeting_due:
            response.extra = {**(response.extra or {}), **GREETING}
        try:
            self.write_command(response)
        except MessageSizeError as e:
            log.warning("the answer to a request %d is too large: %s", request.code, e)
            remark = f"the answer does not fit into a frame: {e}; ask for less"
            refusal = Command(ResponseCode.SYSTEM_ERROR, remark=remark, extra=response.extra)
            refusal.opaque, refusal.flag, refusal.codec = (
                response.opaque, response.flag, response.codec
            )  # fmt: skip
            self.write_command(refusal)
        if not self._dials:  # the dialling side greets until it has seen an answer
            self.greeting_due = False

    def succeed(self, request: Command) -> None:
        """Answers a request with success and nothing else."""
        if self.greeting_due:
            self.respond(request, Command(ResponseCode.SUCCESS))
        elif not (request.flag & FLAG_ONEWAY or self._transport.is_closing()):
            self.write(success_frame(request.codec, request.opaque))

    def answered(self, request: Command, code: int) -> None:
        """Is told of an answer that left as a ready frame: connections that are metered note it."""

    def awaits(self, request: Command) -> bool:
        """Whether the peer still waits for the answer to a request."""
        return not self.is_closing

    def refuse(self, request: Command, code: int, remark: str) -> None:
        """Answers a request with an error."""
        self.respond(request, Command(code, remark=remark))

    def _take_request(self, request: Command) -> None:
        if self._first_request:
            self._first_request = False
            self._meet(request)
        handler = self._handlers.get(request.code)
        if handler is None:
            handler = self._handlers.get(UNKNOWN_CODE)
        if handler is None:
            self.respond(request, refuse_unknown(request, self))
            return
        if len(self._tasks) >= self.limits.tasks_max:
            self.refuse(request, ResponseCode.SYSTEM_BUSY, OVERLOAD)
            return
        if self._watch is not None:
            self._watch.began(request.code)
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
        self._tasks[task] = None
        task.add_done_callback(self._tasks.__delitem__)

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
        elif isinstance(error, OperatingError):
            self._warn("request %d of %s failed: %s", request.code, self.remote_address, error)
            self.refuse(request, ResponseCode.SYSTEM_ERROR, str(error))
        else:
            log.error("request %d of %s failed", request.code, self.remote_address, exc_info=error)
            self.refuse(request, ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _take_response(self, response: Command) -> None:
        if self.greeting_due and self._dials:
            self.greeting_due = False
            self._meet(response)
        if not self._table.resolve(response):
            log.debug("a late answer of %s to %d", self.remote_address, response.opaque)

    def _meet(self, first: Command) -> None:
        """Learns from the peer's first frame whether it is PocketMQ; then speaks msgpack to it."""
        try:
            known = GREETING_FIELD in first.fields
        except ContentError:  # whoever reads that header refuses it
            known = False
        if known:
            self.peer_is_pocketmq = True
            self.codec = Codec.MSGPACK
            if not self._dials:
                self.greeting_due = True

    @property
    def peer_name(self) -> str:
        """The peer's address, and its client id if it is known (attribute `CLIENT_ID`)."""
        client_id = self.attributes.get(CLIENT_ID)
        return self.remote_address + (f" (client {client_id})" if client_id else "")

    @property
    def peer_certificate(self) -> bytes | None:
        """The certificate that the peer has shown, as DER; None if it showed none."""
        ssl_object = self._transport.get_extra_info("ssl_object")
        certificate: bytes | None = ssl_object and ssl_object.getpeercert(binary_form=True)
        return certificate

    @property
    def pending_calls(self) -> int:
        """How many requests wait for an answer."""
        return len(self._table)

    def __repr__(self) -> str:
        return f"<Connection {self.remote_address} pending={self.pending_calls}>"
