"""gRPC's status codes, and how a status is written into trailers."""

from __future__ import annotations

from enum import IntEnum

from pocketmq.transport.http2.header_blocks import encode_block


class GrpcStatus(IntEnum):
    """How a call ended, by gRPC's numbers."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class GrpcError(Exception):
    """A call ends with a status other than OK.

    Attributes:
        status: the status.
        message: for the client, who sees it as it is.
    """

    def __init__(self, status: GrpcStatus, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status, self.message = status, message


MESSAGE_MAX = 1024
"""Bytes of a status message; the rest is left out."""

CONTENT_TYPE = "application/grpc"

ANSWER_BLOCK = b"\x88" + encode_block([("content-type", CONTENT_TYPE)])
"""The fields before an answer's messages; 0x88 is HPACK's `:status 200`."""

OK_TRAILERS = encode_block([("grpc-status", "0")])


def trailers(status: GrpcStatus, message: str) -> list[tuple[str, str]]:
    """The fields that tell a status."""
    fields = [("grpc-status", str(int(status)))]
    if message:
        fields.append(("grpc-message", percent_encoded(message)))
    return fields


def error_trailers(error: GrpcError) -> bytes:
    """The block that ends an answer that has begun."""
    return encode_block(trailers(error.status, error.message))


def error_block(error: GrpcError) -> bytes:
    """The block that is the whole answer of a call without messages."""
    fields = [("content-type", CONTENT_TYPE), *trailers(error.status, error.message)]
    if error.status is GrpcStatus.UNIMPLEMENTED:
        fields.append(("grpc-accept-encoding", "identity,gzip"))
    return b"\x88" + encode_block(fields)


def percent_encoded(text: str) -> str:
    """A status message as gRPC writes it: printable ASCII without `%`, the rest as %XX."""
    return "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte != 0x25 else f"%{byte:02X}"
        for byte in text.encode(errors="replace")[:MESSAGE_MAX]
    )
