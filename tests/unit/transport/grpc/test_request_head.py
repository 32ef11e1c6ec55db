from __future__ import annotations

import pytest

from pocketmq.transport.grpc.request_head import RequestHead, read_timeout_s
from pocketmq.transport.grpc.service import Kind, Service
from pocketmq.transport.grpc.status import GrpcStatus
from pocketmq.transport.http2.header_blocks import Fields

SERVICE = Service(unary={"/s/M": lambda call, message: message})


def head(*more: tuple[bytes, bytes], path: bytes = b"/s/M", method: bytes = b"POST") -> RequestHead:
    fields: Fields = [(b":method", method), (b":path", path)]
    return RequestHead([*fields, *(more or [(b"content-type", b"application/grpc")])], SERVICE)


def test_metadata_without_binary_values() -> None:
    one = head((b"content-type", b"application/grpc+proto"), (b"x", b"1"), (b"y-bin", b"AA"))
    assert one.metadata == {"content-type": "application/grpc+proto", "x": "1"}
    assert (one.kind, one.error) == (Kind.UNARY, None)


@pytest.mark.parametrize("content_type", [b"text/html", b"application/grpcx", b""])
def test_other_contents_are_no_rpc(content_type: bytes) -> None:
    assert head((b"content-type", content_type)).kind is Kind.PLAIN
    assert head(method=b"GET").kind is Kind.PLAIN


def test_unknown_paths_and_encodings() -> None:
    for one in (
        head(path=b"/s/N"),
        head((b"content-type", b"application/grpc"), (b"grpc-encoding", b"br")),
    ):
        assert one.error is not None
        assert one.error.status is GrpcStatus.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2S", 2.0), ("1500m", 1.5), ("1H", 3600.0), ("", None), ("S", None), ("-1S", None)],
)
def test_timeouts(text: str, seconds: float | None) -> None:
    assert read_timeout_s(text) == seconds
