from __future__ import annotations

import msgpack as plain_msgpack
import pytest
from hypothesis import given
from support.protocol.strategies import commands, essence

from pocketmq.protocol.errors import ContentError, FrameError
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.offsets import QueryConsumerOffsetRequest
from pocketmq.protocol.wire.codecs import msgpack
from pocketmq.protocol.wire.command import Codec, Command


@given(commands(Codec.MSGPACK))
def test_round_trip(sent: Command) -> None:
    read = msgpack.decode(msgpack.encode(sent), sent.body)
    assert essence(read) == essence(sent)
    assert {k: _text(v) for k, v in read.fields.items()} == sent.fields
    if sent.header is not None:
        assert read.read(type(sent.header)) == sent.header
    assert msgpack.encode(read) == msgpack.encode(sent)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_numbers_stay_numbers() -> None:
    header = QueryConsumerOffsetRequest(
        consumer_group="G", topic="T", queue_id=3, set_zero_if_not_found=False
    )
    parts = plain_msgpack.unpackb(msgpack.encode(Command(14, 7, header=header)))
    fields = {"consumerGroup": "G", "queueId": 3, "setZeroIfNotFound": False, "topic": "T"}
    assert parts == [14, 3, 513, 7, 0, None, fields]


def test_the_answer_to_a_large_batch_is_read() -> None:
    ids = ",".join(["7F0000010000000000000000000000AB"] * 40_000)
    packed = plain_msgpack.packb([0, 3, 513, 7, 1, None, {"msgId": ids, "queueId": 3}])
    read = msgpack.decode(packed, b"")
    assert (read.opaque, read.fields) == (7, {"msgId": ids, "queueId": 3})


def test_text_where_a_number_is_due_is_read_too() -> None:
    packed = plain_msgpack.packb(
        [14, 3, 513, 7, 0, None, {"consumerGroup": 5, "queueId": "3", "topic": "T", "x": None}]
    )
    assert msgpack.decode(packed, b"").read(QueryConsumerOffsetRequest) == (
        QueryConsumerOffsetRequest(consumer_group="5", topic="T", queue_id=3)
    )


def test_a_missing_required_field_is_named() -> None:
    command = msgpack.decode(plain_msgpack.packb([105, 3, 513, 7, 0, None, {}]), b"")
    with pytest.raises(ContentError, match="`topic`"):
        command.read(RouteRequest)


@pytest.mark.parametrize(
    "parts",
    [
        None,
        7,
        {},
        [],
        [1, 2, 3, 4, 5, None],
        [1, 2, 3, 4, 5, None, {}, 8],
        ["1", 2, 3, 4, 5, None, {}],
        [1.0, 2, 3, 4, 5, None, {}],
        [True, 2, 3, 4, 5, None, {}],
        [1, None, 3, 4, 5, None, {}],
        [1, 2, 3, 4, 5, 6, {}],
        [1, 2, 3, 4, 5, b"remark", {}],
        [1, 2, 3, 4, 5, None, None],
        [1, 2, 3, 4, 5, None, []],
        [1, 2, 3, 4, 5, None, {7: "x"}],
        [1, 2, 3, 4, 5, None, {b"k": "x"}],
        [1, 2, 3, 4, 5, None, {"k": b"bytes"}],
        [1, 2, 3, 4, 5, None, {"k": [0] * 8}],
        [1, 2, 3, 4, 5, None, {str(i): i for i in range(msgpack.FIELDS_MAX + 1)}],
        [1, 2, 3, 4, 5, None, {"k": plain_msgpack.Timestamp(1)}],
    ],
)
def test_a_garbled_header_is_refused(parts: object) -> None:
    with pytest.raises(FrameError, match="the msgpack header"):
        msgpack.decode(plain_msgpack.packb(parts), b"")


@given(commands(Codec.MSGPACK))
def test_every_cut_is_found(sent: Command) -> None:
    header = msgpack.encode(sent)
    for size in range(len(header)):
        with pytest.raises(FrameError):
            msgpack.decode(header[:size], b"")
    with pytest.raises(FrameError):
        msgpack.decode(header + b"\xc0", b"")


def test_values_of_subclasses_of_text_and_numbers_are_written_as_these() -> None:
    class Name(str):
        __slots__ = ()

    class Number(int):
        pass

    command = Command(105, header=RouteRequest(topic=Name("T")), codec=Codec.MSGPACK)
    command.opaque = Number(7)
    read = msgpack.decode(msgpack.encode(command), b"")
    assert (read.opaque, read.fields["topic"]) == (7, "T")
    with pytest.raises(TypeError, match="neither text nor a number"):
        msgpack.encode(Command(105, extra={"a": 1j}))  # type: ignore[dict-item]
