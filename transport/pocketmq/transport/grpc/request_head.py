"""The head of a request: which rpc it is for, and what its client says about it."""

from __future__ import annotations

from sys import intern

from pocketmq.transport.grpc.service import Bidirectional, Kind, Service, Streaming, Unary
from pocketmq.transport.grpc.status import CONTENT_TYPE, GrpcError, GrpcStatus
from pocketmq.transport.http2.header_blocks import Fields, encode_block, repeated

PLAIN_TEXT = b"This port speaks gRPC.\n"

METHOD_NOT_ALLOWED, UNSUPPORTED_MEDIA_TYPE = 405, 415

ENCODINGS = ("identity", "gzip")

_UNITS_S = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
_TIMEOUT_DIGITS_MAX = 8


class RequestHead:
    """The fields of a request, read; calls with the same fields share it.

    Args:
        fields: of the request.
        service: knows the handlers.

    Attributes:
        path: of the rpc.
        metadata: the fields without those of HTTP/2 and without binary ones.
        timeout_s: the client's time for the call; None for no end.
        kind: of the rpc.
        handler: of the rpc; None if there is none.
        error: why the call is refused; None if it is not.
        plain_block: the fields of the answer to a request that is no gRPC.
    """

    __slots__ = ("error", "handler", "kind", "metadata", "path", "plain_block", "timeout_s")

    def __init__(self, fields: Fields, service: Service) -> None:
        self.path = method = ""
        self.metadata: dict[str, str] = {}
        for field in fields:
            texts = repeated.get(field)
            if texts is not None:
                if not texts[0].endswith("-bin"):
                    self.metadata[texts[0]] = texts[1]
                continue
            name, value = field
            if name == b":path":
                self.path = intern(value.decode("latin-1"))
            elif name == b":method":
                method = value.decode("latin-1")
            elif name[:1] != b":" and not name.endswith(b"-bin"):
                # Most names and values are those of other connections, too.
                self.metadata[intern(name.decode("latin-1"))] = intern(value.decode("latin-1"))
        self.timeout_s = read_timeout_s(self.metadata.get("grpc-timeout", ""))
        self.error: GrpcError | None = None
        self.plain_block = b""
        self.kind = Kind.UNARY
        self.handler: Unary | Streaming | Bidirectional | None = service.unary.get(self.path)
        if not _is_grpc(method, self.metadata.get("content-type", "")):
            self.kind = Kind.PLAIN
            status = METHOD_NOT_ALLOWED if method != "POST" else UNSUPPORTED_MEDIA_TYPE
            self.plain_block = encode_block([(":status", str(status)), ("allow", "POST")])
            return
        if self.handler is None:
            if self.path in service.streaming:
                self.kind, self.handler = Kind.STREAMING, service.streaming[self.path]
            elif self.path in service.bidirectional:
                self.kind, self.handler = Kind.BIDIRECTIONAL, service.bidirectional[self.path]
            else:
                text = f"no rpc has the path {self.path}"
                self.error = GrpcError(GrpcStatus.UNIMPLEMENTED, text)
        encoding = self.metadata.get("grpc-encoding", "identity")
        if encoding not in ENCODINGS:
            text = f"the encoding {encoding} is not known: leave messages as they are, or use gzip"
            self.error = GrpcError(GrpcStatus.UNIMPLEMENTED, text)


def _is_grpc(method: str, content_type: str) -> bool:
    rest = content_type.removeprefix(CONTENT_TYPE)
    return method == "POST" and rest != content_type and rest[:1] in ("", "+", ";")


def read_timeout_s(text: str) -> float | None:
    """The seconds of a grpc-timeout; None if it is none."""
    digits, unit = text[:-1], text[-1:]
    if unit not in _UNITS_S or not digits.isascii() or not digits.isdigit():
        return None
    if len(digits) > _TIMEOUT_DIGITS_MAX:
        return None
    return int(digits) * _UNITS_S[unit]
