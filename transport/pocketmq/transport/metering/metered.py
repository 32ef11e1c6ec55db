"""Connections that tell how long their answers take; loaded only where metrics are exported."""

from __future__ import annotations

from typing import Protocol

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.wire.command import FLAG_ONEWAY, Command
from pocketmq.runtime.clock import Clock
from pocketmq.transport.connection import Connection, ConnectionOptions, Handlers
from pocketmq.transport.tls.connection import TlsConnection

UNANSWERED_MAX = 10_000
"""Requests of a connection that are remembered until their answers; then the oldest are not."""

SUCCESS, ONEWAY = "success", "oneway"
HANDLER_FAILED, WRITE_FAILED = "process_request_failed", "write_channel_failed"
"""How it ended with a request (`RemotingMetricsConstant`)."""


class Meter(Protocol):
    """Is told of each answer."""

    def answered(
        self, request: Command, code: int, is_late: bool, result: str, latency_ms: float
    ) -> None:
        """Takes note of an answer.

        Args:
            request: the request.
            code: of the answer.
            is_late: whether the request's handler had returned before.
            result: `SUCCESS` and so on.
            latency_ms: milliseconds since the request came.
        """


class Metered(Connection):
    """Measures the time between the bytes of a request and its answer.

    What it does for each request stands here with few calls of others, and names base classes
    where `super` would look for them: that is a tenth of a send.
    """

    __slots__ = ()

    _meter: Meter
    _began: dict[int, float]
    _handled: list[int | None]

    def _take_request(self, request: Command) -> None:
        began = self._began
        opaque = self._handled[0] = request.opaque
        began[opaque] = self._last_activity
        if len(began) > UNANSWERED_MAX:
            del began[next(iter(began))]
        Connection._take_request(self, request)
        self._handled[0] = None

    def answered(self, request: Command, code: int, result: str = SUCCESS) -> None:
        """Takes note of the answer to a request, unless that was done."""
        opaque = request.opaque
        began_s = self._began.pop(opaque, None)
        if began_s is None:
            return
        if request.flag & FLAG_ONEWAY:
            result = ONEWAY
        elif self._transport.is_closing():
            result = WRITE_FAILED
        self._meter.answered(
            request, code, opaque != self._handled[0], result, (self._monotonic() - began_s) * 1000
        )

    def respond(self, request: Command, response: Command) -> None:
        """Answers a request."""
        super().respond(request, response)
        self.answered(request, response.code)

    def succeed(self, request: Command) -> None:
        """Answers a request with success and nothing else."""
        super().succeed(request)
        self.answered(request, ResponseCode.SUCCESS)

    def _refuse_for(self, request: Command, error: Exception) -> None:
        if not isinstance(error, ResponseError):
            self.answered(request, ResponseCode.SYSTEM_ERROR, HANDLER_FAILED)
        super()._refuse_for(request, error)


class MeteredConnection(Metered):
    """A `Connection` that is metered.

    Args:
        meter: is told of the answers.
        clock, handlers, options: as of a `Connection`.
    """

    __slots__ = ("_began", "_handled", "_meter")

    def __init__(
        self, meter: Meter, clock: Clock, handlers: Handlers, options: ConnectionOptions
    ) -> None:
        super().__init__(clock, handlers, options)
        self._meter, self._began, self._handled = meter, {}, [None]


class MeteredTlsConnection(Metered, TlsConnection):
    """A `TlsConnection` that is metered.

    Args:
        meter: is told of the answers.
        clock, handlers, options: as of a `Connection`.
    """

    __slots__ = ("_began", "_handled", "_meter")

    def __init__(
        self, meter: Meter, clock: Clock, handlers: Handlers, options: ConnectionOptions
    ) -> None:
        super().__init__(clock, handlers, options)
        self._meter, self._began, self._handled = meter, {}, [None]
