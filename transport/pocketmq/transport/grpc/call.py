"""One rpc, as its handler sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING

from pocketmq.transport.grpc.messages import PREFIX, PREFIX_SIZE, MessageReader, framed
from pocketmq.transport.grpc.request_head import RequestHead
from pocketmq.transport.grpc.service import Kind
from pocketmq.transport.grpc.status import GrpcError, GrpcStatus
from pocketmq.transport.http2.stream import Stream

if TYPE_CHECKING:
    from pocketmq.runtime.clock import Timer
    from pocketmq.transport.grpc.connection import GrpcConnection


class CallClosed(Exception):
    """The call has ended: its client is gone, gave up, or had its time."""


class Call:
    """One rpc of a client.

    Attributes:
        begun_s: when it began, by the machine's clock.
        connection: by which it came.
        is_open: false when it was answered, reset, timed out or lost.
        has_begun: a message of the answer was sent.
        head: what the client said about it.
        kind: of the rpc.
        held_size: bytes of the request that are held until its handler gets them.
        stream: of HTTP/2.
        task: its handler, if that did not answer at once.
        timer: for the client's deadline.
    """

    __slots__ = (
        "_callbacks",
        "_deadline_s",
        "_incoming",
        "_incoming_end",
        "_overpaid",
        "_reader",
        "_room",
        "_wakeup",
        "begun_s",
        "connection",
        "has_begun",
        "head",
        "held_size",
        "is_open",
        "kind",
        "stream",
        "task",
        "timer",
    )

    def __init__(
        self,
        connection: GrpcConnection,
        stream: Stream,
        head: RequestHead,
        deadline_s: float | None,
        begun_s: float,
    ) -> None:
        self.connection, self.stream, self.head, self.kind = connection, stream, head, head.kind
        self.begun_s = begun_s
        self._deadline_s = deadline_s
        self.is_open, self.has_begun = True, False
        self.held_size = 0
        self.task: asyncio.Future[object] | None = None
        self.timer: Timer | None = None
        self._callbacks: list[Callable[[], object]] | None = None
        self._reader: MessageReader | None = None
        self._incoming: deque[bytes] | None = None
        self._incoming_end = False
        self._overpaid = 0
        self._wakeup: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    @property
    def path(self) -> str:
        """Of the rpc, ``/package.Service/Method``."""
        return self.head.path

    @property
    def metadata(self) -> Mapping[str, str]:
        """The request's fields by their lower-case names, without binary ones (``-bin``)."""
        return self.head.metadata

    @property
    def remote_address(self) -> str:
        """The client's address, ``host:port``."""
        return self.connection.remote_address

    def remaining_s(self) -> float | None:
        """Seconds until the client's deadline, by the machine's clock; None without one."""
        if self._deadline_s is None:
            return None
        return max(0.0, self._deadline_s - self.connection.monotonic())

    def on_close(self, callback: Callable[[], object]) -> None:
        """Has a callback called once when the call ends, for whatever reason."""
        if not self.is_open:
            callback()
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def cut_off(self, reason: str) -> None:
        """Cuts the connection that the call came by."""
        self.connection.abort(reason)

    async def write(self, message: bytes) -> None:
        """Sends a message; waits while the client has not read what was sent before.

        Raises:
            CallClosed: the call has ended.
        """
        while self.is_open and self.stream.queued_size >= self.connection.limits.call_queue_max:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)
        if not self.is_open:
            raise CallClosed("the call has ended")
        self._send(message)

    def write_nowait(self, message: bytes) -> bool:
        """Queues a message; false if too much is queued or the call has ended."""
        queued = self.stream.queued_size
        if not self.is_open or (
            queued and queued + len(message) > self.connection.limits.call_queue_max
        ):
            return False
        self._send(message)
        return self.is_open

    def _send(self, message: bytes) -> None:
        is_first, self.has_begun = not self.has_begun, True
        self.connection.write_message(self.stream, framed(message), is_first)

    async def messages(self) -> AsyncIterator[bytes]:
        """The messages of the client, until it says that there are no more.

        Raises:
            CallClosed: the call has ended before.
        """
        while True:
            while self._incoming:
                message = self._incoming.popleft()
                size = PREFIX_SIZE + len(message)
                paid = min(size, self._overpaid)
                self._overpaid -= paid
                self.connection.consumed(self, size - paid)
                yield message
            if self._incoming_end:
                return
            if not self.is_open:
                raise CallClosed("the call has ended")
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup

    # --- of the connection

    def is_whole_request(self, data: bytes) -> bool:
        """Whether the last data of a request is one plain message, and nothing came before it."""
        if self.kind.value > Kind.STREAMING.value or self._reader is not None:
            return False
        size = len(data) - PREFIX_SIZE
        return size >= 0 and PREFIX.unpack_from(data) == (0, size)

    def feed(self, data: bytes, is_end: bool, size_max: int) -> int:
        """Takes a part of the request, and returns how many bytes the client may send for it.

        Raises:
            GrpcError: a message is too large, incomplete, or not compressed as it says.
        """
        reader = self._reader
        if reader is None:
            encoding = self.metadata.get("grpc-encoding", "identity")
            reader = self._reader = MessageReader(size_max, encoding)
        before = reader.size
        messages = reader.feed(data)
        if is_end and reader.size:
            raise GrpcError(GrpcStatus.INTERNAL, "the last message of the request is not complete")
        if messages:
            if self._incoming is None:
                self._incoming = deque()
            self._incoming.extend(messages)
        self._incoming_end = is_end
        if self.kind is not Kind.BIDIRECTIONAL:
            self.held_size = reader.size + sum(map(len, self._incoming or ()))
            if self._incoming is not None and len(self._incoming) > 1:
                raise GrpcError(GrpcStatus.INTERNAL, "the rpc takes one message")
            return len(data)
        self.held_size = reader.size
        if messages or is_end:
            _wake(self._wakeup)
        # What is held of a message counts as consumed, so that large ones go on; complete ones
        # count when the handler takes them.
        credit = len(data) - sum(map(len, messages)) - PREFIX_SIZE * len(messages)
        if credit < 0:
            self._overpaid += min(before, -credit)
            return 0
        return credit

    def only_message(self) -> bytes:
        """The message of a complete request that takes one.

        Raises:
            GrpcError: there is none.
        """
        if not self._incoming:
            raise GrpcError(GrpcStatus.INTERNAL, "the request has no message")
        return self._incoming.popleft()

    def drained(self) -> None:
        """Goes on with a handler that waits in `write`."""
        if self._room is not None and (
            self.stream.queued_size < self.connection.limits.call_queue_max
        ):
            _wake(self._room)
            self._room = None

    def close(self) -> list[Callable[[], object]]:
        """Ends the call, and returns what is to be called then."""
        self.is_open = False
        self._reader = None
        if self.timer is not None:
            self.timer.cancel()
        _wake(self._wakeup)
        _wake(self._room)
        callbacks, self._callbacks = self._callbacks, None
        return callbacks or []


def _wake(future: asyncio.Future[None] | None) -> None:
    if future is not None and not future.done():
        future.set_result(None)
