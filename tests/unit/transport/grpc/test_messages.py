from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.transport.grpc.messages import PREFIX, MessageReader, framed
from pocketmq.transport.grpc.status import GrpcError, GrpcStatus


@given(st.lists(st.binary(max_size=50), max_size=6), st.integers(1, 20))
def test_messages_come_whole_however_they_are_cut(messages: list[bytes], step: int) -> None:
    data = b"".join(map(framed, messages))
    reader = MessageReader(50, "identity")
    parts = [data[at : at + step] for at in range(0, len(data), step)]
    assert [one for part in parts for one in reader.feed(part)] == messages
    assert reader.size == 0


def compressed(message: bytes) -> bytes:
    packed = gzip.compress(message, mtime=0)
    return PREFIX.pack(1, len(packed)) + packed


def test_gzip() -> None:
    assert MessageReader(99, "gzip").feed(compressed(b"x" * 99)) == [b"x" * 99]


@pytest.mark.parametrize(
    ("data", "encoding", "status"),
    [
        (PREFIX.pack(0, 100), "identity", GrpcStatus.RESOURCE_EXHAUSTED),
        (compressed(b"x" * 100), "gzip", GrpcStatus.RESOURCE_EXHAUSTED),
        (compressed(b"x"), "identity", GrpcStatus.INTERNAL),
        (PREFIX.pack(1, 3) + b"abc", "gzip", GrpcStatus.INTERNAL),
        (PREFIX.pack(1, 12) + gzip.compress(b"x", mtime=0)[:12], "gzip", GrpcStatus.INTERNAL),
        (PREFIX.pack(7, 1) + b"x", "gzip", GrpcStatus.INTERNAL),
    ],
)
def test_bad_messages(data: bytes, encoding: str, status: GrpcStatus) -> None:
    with pytest.raises(GrpcError) as caught:
        MessageReader(99, encoding).feed(data)
    assert caught.value.status is status
