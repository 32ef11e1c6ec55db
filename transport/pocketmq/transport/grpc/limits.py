"""What clients may ask of a gRPC server."""

from __future__ import annotations

import msgspec

from pocketmq.transport.http2.limits import KIB, MIB, Http2Limits


class GrpcLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a server and its connections.

    Attributes:
        http2: of each connection's frames.
        message_max: bytes of a request's message, compressed or not.
        unfinished_of_connection_max: bytes of messages of a connection that are not complete; a
            call beyond is refused.
        unfinished_max: the same for all connections together.
        calls_max: open calls of all connections together; further ones are refused.
        request_s: a request that is not complete after so long is refused.
        unread_max: bytes of answers that may wait for all peers that read too slowly; beyond, the
            one with the most is cut off.
        call_queue_max: bytes of answers of one call that wait for its client to read.
        idle_s: a connection without calls for so long is closed.
        greeting_s: so long a peer may take for its first frame.
        stalled_s: a peer that reads nothing for so long, while answers wait, is cut off.
    """

    http2: Http2Limits = msgspec.field(default_factory=Http2Limits)
    message_max: int = 16 * MIB
    unfinished_of_connection_max: int = 256 * MIB
    unfinished_max: int = 512 * MIB
    calls_max: int = 100_000
    request_s: float = 60.0
    unread_max: int = 512 * MIB
    call_queue_max: int = 256 * KIB
    idle_s: float = 120.0
    greeting_s: float = 10.0
    stalled_s: float = 60.0
