from __future__ import annotations

import msgpack
import msgspec
import pytest
from hypothesis import given
from support.protocol.strategies import HEADERS

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.requests.clients import HeartbeatResponse
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.offsets import MaxOffsetRequest
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.header import (
    Header,
    header_from_fields,
    name_fields,
    native_fields,
    text_fields,
    text_values,
    wire_fields,
    wire_form,
)


@given(HEADERS)
def test_round_trip_as_text_and_as_values(header: Header) -> None:
    assert header_from_fields(text_fields(header), type(header)) == header
    assert header_from_fields(native_fields(header), type(header)) == header
    assert text_values(native_fields(header)) == text_fields(header)
    form = wire_form(type(header))(header)
    assert msgspec.msgpack.encode(form) == msgpack.packb(native_fields(header))


def test_which_fields_hold_the_names_of_topics_and_groups() -> None:
    assert name_fields(ConsumerSendMsgBackRequest) == (("origin_topic",), ("group",))
    assert name_fields(MaxOffsetRequest) == (("topic",), ())
    assert name_fields(SendMessageV2Request) == (("topic",), ("producer_group",))


def test_names_are_those_of_the_wire_in_their_order() -> None:
    assert wire_fields(MaxOffsetRequest) == (
        ("committed", "committed"),
        ("queue_id", "queueId"),
        ("topic", "topic"),
    )
    assert [name for _, name in wire_fields(HeartbeatResponse)] == [
        "IS_SUB_CHANGE",
        "IS_SUPPORT_HEART_BEAT_V2",
    ]


def test_text_is_as_java_prints_it() -> None:
    header = MaxOffsetRequest(topic="T", queue_id=RequestCode.SEND_MESSAGE, committed=True)
    assert text_fields(header) == {"committed": "true", "queueId": "10", "topic": "T"}
    assert list(text_fields(MaxOffsetRequest(topic="T", queue_id=-1))) == ["queueId", "topic"]


def test_text_of_loose_values() -> None:
    assert text_values({"a": True, "b": False, "c": 1, "d": None, "e": "E", "f": 1.5}) == {
        "a": "true",
        "b": "false",
        "c": "1",
        "e": "E",
        "f": "1.5",
    }


@pytest.mark.parametrize(
    "fields",
    [{}, {"topic": "T"}, {"topic": "T", "queueId": "x"}, {"topic": "T", "queueId": [1]}],
)
def test_a_header_that_does_not_fit_names_its_class(fields: dict[str, object]) -> None:
    with pytest.raises(ContentError, match="MaxOffsetRequest cannot be read"):
        header_from_fields(fields, MaxOffsetRequest)
