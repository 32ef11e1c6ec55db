"""A connection of a client of the same process: commands go to handlers and back without frames."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import OperatingError, ResponseError
from pocketmq.protocol.messages.hosts import encode_host, split_address
from pocketmq.protocol.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.tasks import Tasks
from pocketmq.transport.connection import Connection, Handlers, refuse_unknown
from pocketmq.transport.errors import CallTimeoutError, ConnectionClosedError
from pocketmq.transport.reading_state import Hold
from pocketmq.transport.response_table import OnAnswer

AskClient = Callable[[Command], Awaitable[Command | None] | None]
"""Gives a request of the server to the client; one-way requests are not answered."""


class InProcessConnection(Connection):
    """Calls the handlers of a server as a client's connection does.

    Args:
        clock: for time limits.
        handlers: of the server.
        remote_address: of the client that is behind, ``host:port``.
        ask_client: takes what the server asks the client.
        on_close: called when it is closed.
    """

    __slots__ = ("_ask_client", "_calls", "_is_open", "_next_opaque", "_on_closed", "_requests")

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers,
        remote_address: str,
        ask_client: AskClient,
        on_close: Callable[[Connection], object] | None = None,
    ) -> None:
        super().__init__(clock, handlers)
        self.remote_address = remote_address
        host, port = split_address(remote_address)
        self.remote_host = encode_host(host, port)
        self.greeting_due = True  # so that handlers answer with commands instead of frames
        self._ask_client, self._on_closed = ask_client, on_close
        self._calls: dict[int, asyncio.Future[Command]] = {}
        self._next_opaque = 0
        self._is_open = True
        self._requests = Tasks()

    @property
    def is_closing(self) -> bool:
        """Whether it is closed."""
        return not self._is_open

    # -- what the client asks the server ------------------------------------------------------

    async def ask(self, command: Command) -> Command:
        """Gives a request to its handler, and returns the answer.

        Raises:
            ConnectionClosedError: it is closed.
        """
        if not self._is_open:
            raise ConnectionClosedError(self.remote_address, self.close_reason)
        self._next_opaque += 1
        opaque = command.opaque = self._next_opaque
        is_oneway = command.is_oneway
        answered: asyncio.Future[Command] = self._loop.create_future()
        self._calls[opaque] = answered
        try:
            reply = self._handlers.get(command.code, refuse_unknown)(command, self)
            if reply is not None and not isinstance(reply, Command):
                reply = await reply
            if is_oneway:
                return reply or Command(ResponseCode.SUCCESS)
            if reply is not None and not command.is_oneway:  # else the reply is to be lost
                return reply
            return await answered
        except ResponseError as e:
            return Command(e.code, remark=e.remark)
        except ConnectionClosedError:
            raise
        except OperatingError as e:
            return Command(ResponseCode.SYSTEM_ERROR, remark=str(e))
        finally:
            del self._calls[opaque]

    def respond(self, request: Command, response: Command) -> None:
        """Answers a request that `ask` waits for."""
        answered = None if request.is_oneway else self._calls.get(request.opaque)
        if answered is not None and not answered.done():
            response.flag |= FLAG_RESPONSE
            answered.set_result(response)

    def awaits(self, request: Command) -> bool:
        """Whether `ask` still waits for the answer to a request."""
        return self._is_open and request.opaque in self._calls

    @property
    def received_s(self) -> float:
        """When the request came that is being handled: now."""
        return self._monotonic()

    def hold_reading(self, reason: Hold) -> None:
        """Does nothing: who calls `ask` waits for its answer."""

    def release_reading(self, reason: Hold) -> None:
        """Does nothing, as `hold_reading`."""

    # -- what the server asks the client ------------------------------------------------------

    def notify(self, command: Command) -> None:
        """Gives a one-way request to the client."""
        if self._is_open:
            command.flag |= FLAG_ONEWAY
            self._ask_client(command)

    async def oneway(self, command: Command) -> None:
        """Gives a one-way request to the client."""
        self.notify(command)

    def send_request(self, command: Command, timeout_ms: float, on_answer: OnAnswer) -> None:
        """Gives a request to the client; `on_answer` gets the answer or the error."""
        self._requests.spawn(self._forward(command, timeout_ms, on_answer), "ask a client")

    async def _forward(self, command: Command, timeout_ms: float, on_answer: OnAnswer) -> None:
        try:
            on_answer(await self.call(command, timeout_ms))
        except OperatingError as e:
            on_answer(e)

    async def call(self, command: Command, timeout_ms: float) -> Command:
        """Gives a request to the client, and returns its answer.

        Raises:
            ConnectionClosedError, CallTimeoutError.
        """
        if not self._is_open:
            raise ConnectionClosedError(self.remote_address, self.close_reason)
        asked = self._ask_client(command)
        answer = None if asked is None else await asked
        if answer is None:
            raise CallTimeoutError(self.remote_address, timeout_ms)
        return answer

    # -- the end ------------------------------------------------------------------------------

    def close(self, reason: str = "closed by this side") -> None:
        """Closes it: calls under way end with an error. Idempotent."""
        if not self._is_open:
            return
        self._is_open, self.close_reason = False, reason
        for answered in self._calls.values():
            if not answered.done():
                answered.set_exception(ConnectionClosedError(self.remote_address, reason))
        if not self._closed.done():
            self._closed.set_result(None)
        if self._on_closed is not None:
            self._on_closed(self)

    def abort(self, reason: str) -> None:
        """Closes it."""
        self.close(reason)

    def cut_off(self, reason: str) -> None:
        """Closes it."""
        self.close(reason)
