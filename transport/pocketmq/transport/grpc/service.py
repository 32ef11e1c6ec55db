"""What a gRPC server serves."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pocketmq.transport.grpc.call import Call

HEALTH_CHECK = "/grpc.health.v1.Health/Check"
HEALTH_SERVING = b"\x08\x01"
"""HealthCheckResponse with the status SERVING."""

Unary = Callable[["Call", bytes], bytes | Awaitable[bytes]]
"""Answers a request with one message; bytes that are there at once cost no task."""

Streaming = Callable[["Call", bytes], Awaitable["Sequence[bytes] | None"]]
"""Writes the answers of one request; what it returns leaves as the last of them, together with the
end of the call.
"""

Bidirectional = Callable[["Call"], Awaitable[None]]
"""Reads `Call.messages` and writes; its end is the end of the call."""


class Kind(Enum):
    """How the messages of an rpc go."""

    UNARY = 1
    STREAMING = 2
    BIDIRECTIONAL = 3
    PLAIN = 4
    """It is no rpc, but a request of HTTP."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers of a server, by the paths of their rpcs.

    Attributes:
        unary: of one request and one answer.
        streaming: of one request and a stream of answers.
        bidirectional: of a stream of requests and a stream of answers.
    """

    unary: Mapping[str, Unary] = msgspec.field(default_factory=dict)
    streaming: Mapping[str, Streaming] = msgspec.field(default_factory=dict)
    bidirectional: Mapping[str, Bidirectional] = msgspec.field(default_factory=dict)
