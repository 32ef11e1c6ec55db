from __future__ import annotations

from hpack import Decoder

from pocketmq.transport.grpc.status import (
    ANSWER_BLOCK,
    GrpcError,
    GrpcStatus,
    error_block,
    percent_encoded,
)


def test_messages_are_percent_encoded() -> None:
    assert percent_encoded("50 % of\nblå") == "50 %25 of%0Abl%C3%A5"
    assert len(percent_encoded("x" * 5000)) == 1024


def test_a_call_without_messages_ends_with_its_first_fields() -> None:
    error = GrpcError(GrpcStatus.UNIMPLEMENTED, "no")
    fields = {str(n): str(v) for n, v in Decoder().decode(error_block(error))}
    assert fields == {
        ":status": "200",
        "content-type": "application/grpc",
        "grpc-status": "12",
        "grpc-message": "no",
        "grpc-accept-encoding": "identity,gzip",
    }


def test_an_answer_begins_with_200() -> None:
    fields = [(str(n), str(v)) for n, v in Decoder().decode(ANSWER_BLOCK)]
    assert fields == [(":status", "200"), ("content-type", "application/grpc")]
