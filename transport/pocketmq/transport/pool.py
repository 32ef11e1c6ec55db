"""A client's connections: one to each address, dialled when it is first needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import response_error
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import Header, RequestHeader
from pocketmq.runtime.clock import Clock, within
from pocketmq.transport.connection import BeforeRequest, Connection, ConnectionOptions, Handlers
from pocketmq.transport.errors import CallTimeoutError, ConnectError
from pocketmq.transport.limits import Limits
from pocketmq.transport.permits import ASYNC_PERMITS, ONEWAY_PERMITS, Permits
from pocketmq.transport.response_table import OnAnswer
from pocketmq.transport.tls.connection import TlsConnection
from pocketmq.transport.tls.contexts import client_context, handshake_failure
from pocketmq.transport.tls.settings import ClientTls

HeaderT = TypeVar("HeaderT", bound=Header)

CONNECT_TIMEOUT_MS = 3000

Way = Callable[[str], Awaitable[str]]
"""Tells where to dial for an address, ``host:port``: the network that a test makes stands there."""


class ConnectionPool:
    """Calls peers by address; dials anew, on the next call, where a connection was lost.

    Args:
        clock: for deadlines.
        handlers: by request code, for what peers ask of this client.
        limits: of each connection.
        oneway_permits, async_permits: how many calls may be under way in all.
        connect_timeout_ms: how long dialling may take.
        on_close: called when a connection is gone.
        before_request: called in order with each request before it is encoded; may change it.
        tls: how to speak TLS; None for plain connections.
        way: where to dial for an address; None for the address itself.

    Raises:
        ConfigError: a file for TLS cannot be read or does not fit.
    """

    def __init__(
        self,
        clock: Clock,
        handlers: Handlers | None = None,
        *,
        limits: Limits | None = None,
        oneway_permits: int = ONEWAY_PERMITS,
        async_permits: int = ASYNC_PERMITS,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        on_close: Callable[[Connection], object] | None = None,
        before_request: tuple[BeforeRequest, ...] = (),
        tls: ClientTls | None = None,
        way: Way | None = None,
    ) -> None:
        self._way = way
        self._tls = None if tls is None else client_context(tls)
        self._clock, self._handlers = clock.machine, handlers or {}
        self._options = ConnectionOptions(
            limits=limits or Limits(),
            dials=True,
            oneway_permits=Permits("one-way", oneway_permits),
            async_permits=Permits("async", async_permits),
            on_close=self._closed,
            before_request=before_request,
        )
        self._connect_timeout_ms = connect_timeout_ms
        self._on_close = on_close
        self._open: dict[str, Connection] = {}
        self._dialling: dict[str, asyncio.Task[Connection]] = {}
        self._is_closed = False

    async def get(self, address: str) -> Connection:
        """Returns the open connection to an address; dials if there is none, once for all callers.

        Raises:
            ConnectError: it cannot be reached, or the pool is closed.
        """
        connection = self._open.get(address)
        if connection is not None and not connection.is_closing:
            return connection
        if self._is_closed:
            raise ConnectError(address, "this client is closed")
        task = self._dialling.get(address)
        if task is None:
            task = asyncio.ensure_future(self._dial(address))
            self._dialling[address] = task
            task.add_done_callback(partial(self._dialled, address))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():  # by `close`
                raise ConnectError(address, "this client is closed") from None
            raise

    def _dialled(self, address: str, task: asyncio.Task[Connection]) -> None:
        del self._dialling[address]
        if not task.cancelled():
            task.exception()  # known to those who wait; perhaps nobody does any more

    def peek(self, address: str) -> Connection | None:
        """Returns the open connection to an address, if there is one."""
        connection = self._open.get(address)
        return None if connection is None or connection.is_closing else connection

    async def _dial(self, address: str) -> Connection:
        try:
            connection = await within(
                self._clock, self._connect_timeout_ms / 1000, self._connect(address)
            )
        except TimeoutError:
            raise ConnectError(address, f"no connection in {self._connect_timeout_ms} ms") from None
        except OSError as e:
            raise ConnectError(address, self._dial_failure(e)) from e
        if self._is_closed:
            connection.abort("this client is closed")
            raise ConnectError(address, "this client is closed")
        self._open[address] = connection
        connection.attributes["address"] = address
        return connection

    async def _connect(self, address: str) -> Connection:
        where = address if self._way is None else await self._way(address)
        host, port = split_address(where)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(self._connection, host, port, ssl=self._tls)
        return connection

    def _dial_failure(self, error: OSError) -> str:
        if self._tls is not None and isinstance(error, ConnectionResetError | BrokenPipeError):
            return (
                "it closed the connection in the TLS handshake: leave TLS out, or turn it on in "
                "the server"
            )
        return handshake_failure(error) or error.strerror or str(error)

    def _connection(self) -> Connection:
        kind = Connection if self._tls is None else TlsConnection
        return kind(self._clock, self._handlers, self._options)

    def _closed(self, connection: Connection) -> None:
        address = connection.attributes.get("address")
        if address is not None and self._open.get(address) is connection:
            del self._open[address]
        if self._on_close is not None:
            self._on_close(connection)

    async def call(
        self, address: str, request: RequestHeader, timeout_ms: float, body: bytes = b""
    ) -> Command:
        """Sends a request and returns its answer, whatever its code.

        Args:
            address: ``host:port`` of the peer.
            request: the header of the request.
            timeout_ms: how long connecting, sending and answering may take together.
            body: of the request.

        Raises:
            ConnectError, ConnectionClosedError, CallTimeoutError, TooMuchRequestError.
        """
        command = Command(request.code, header=request, body=body)
        connection = self._open.get(address)
        if connection is None or connection.is_closing:
            started = self._clock.monotonic()
            try:
                connection = await within(self._clock, timeout_ms / 1000, self.get(address))
            except TimeoutError:
                raise CallTimeoutError(address, timeout_ms) from None
            timeout_ms -= (self._clock.monotonic() - started) * 1000
        return await connection.call(command, timeout_ms)

    async def ask(
        self, address: str, request: RequestHeader, timeout_ms: float, body: bytes = b""
    ) -> Command:
        """Sends a request and returns its answer; raises an answer other than success.

        Raises:
            ResponseError: the peer refused; further, what `call` raises.
        """
        response = await self.call(address, request, timeout_ms, body)
        if response.code != ResponseCode.SUCCESS:
            raise response_error(response.code, response.remark, address)
        return response

    async def ask_for(
        self,
        address: str,
        request: RequestHeader,
        answer: type[HeaderT],
        timeout_ms: float,
        body: bytes = b"",
    ) -> HeaderT:
        """Sends a request and reads its answer's header; raises an answer other than success.

        Raises:
            ContentError: the answer cannot be read; further, what `ask` raises.
        """
        return (await self.ask(address, request, timeout_ms, body)).read(answer)

    async def send(
        self,
        address: str,
        request: RequestHeader,
        timeout_ms: float,
        on_answer: OnAnswer,
        body: bytes = b"",
    ) -> None:
        """Sends a request and returns; the answer, or the error, goes to the callback.

        Raises:
            ConnectError, ConnectionClosedError, TooMuchRequestError.
        """
        connection = await self.get(address)
        connection.send_request(
            Command(request.code, header=request, body=body), timeout_ms, on_answer
        )

    async def oneway(self, address: str, request: RequestHeader, body: bytes = b"") -> None:
        """Sends a request that is never answered.

        Raises:
            ConnectError, ConnectionClosedError, TooMuchRequestError.
        """
        connection = await self.get(address)
        await connection.oneway(Command(request.code, header=request, body=body))

    def drop(self, address: str, reason: str) -> None:
        """Closes the connection to an address, if there is one."""
        connection = self._open.pop(address, None)
        if connection is not None:
            connection.close(reason)

    async def close(self) -> None:
        """Closes every connection. Idempotent."""
        self._is_closed = True
        dialling = list(self._dialling.values())
        for task in dialling:
            task.cancel()
        await asyncio.gather(*dialling, return_exceptions=True)
        connections = list(self._open.values())
        for connection in connections:
            connection.close()
        for connection in connections:
            await connection.wait_closed()
