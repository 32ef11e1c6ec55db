from __future__ import annotations

import pytest

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.requests.clients import HeartbeatResponse
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.offsets import (
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.wire.codecs import json
from pocketmq.protocol.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Codec, Command


def received(fields: str) -> Command:
    return json.decode(b'{"code":14,"extFields":%b}' % fields.encode(), b"")


def test_flags() -> None:
    assert Command(1, flag=FLAG_RESPONSE).is_response
    assert Command(1, flag=FLAG_ONEWAY).is_oneway
    assert not Command(1).is_response


def test_codec_numbers_are_those_of_the_wire() -> None:
    assert [(codec.name, int(codec)) for codec in Codec] == [
        ("JSON", 0),
        ("BINARY", 1),
        ("MSGPACK", 0x50),
    ]


def test_fields_to_be_sent_are_text() -> None:
    header = UpdateConsumerOffsetRequest(consumer_group="G", topic="T", queue_id=3, commit_offset=9)
    command = Command(15, header=header, extra={"x": "y"})
    assert command.fields == {
        "commitOffset": "9",
        "consumerGroup": "G",
        "queueId": "3",
        "topic": "T",
        "x": "y",
    }
    assert Command(15).fields == {}


def test_reads_values_of_every_scalar_kind() -> None:
    request = received(
        '{"consumerGroup":"null","topic":5,"queueId":3,"setZeroIfNotFound":true}'
    ).read(QueryConsumerOffsetRequest)
    assert request == QueryConsumerOffsetRequest(
        consumer_group="null", topic="5", queue_id=3, set_zero_if_not_found=True
    )


@pytest.mark.parametrize(
    ("value", "expected"), [('"true"', True), ('"false"', False), ("false", False)]
)
def test_reads_booleans_however_they_are_written(value: str, expected: bool) -> None:
    answer = received(f'{{"IS_SUB_CHANGE":{value}}}').read(HeartbeatResponse)
    assert answer.is_sub_change is expected


def test_boolean_where_text_is_due_reads_as_rocketmq_prints_it() -> None:
    assert received('{"topic":true}').read(RouteRequest).topic == "true"


def test_unknown_fields_are_ignored() -> None:
    assert received('{"topic":"T","ReqT":"0","lo":"false"}').read(RouteRequest).topic == "T"


def test_a_null_is_an_absent_field() -> None:
    command = received('{"topic":"T","acceptStandardJsonOnly":null,"x":null}')
    assert command.read(RouteRequest) == RouteRequest(topic="T")
    assert command.fields == {"topic": "T"}


@pytest.mark.parametrize("fields", ["{}", "null", '{"topic":null}'])
def test_a_missing_required_field_is_named(fields: str) -> None:
    with pytest.raises(ContentError, match=r"RouteRequest cannot be read: .*`topic`"):
        received(fields).read(RouteRequest)


def test_absent_fields_are_none() -> None:
    command = json.decode(b'{"code":14}', b"")
    assert command.fields == {}
    assert command.read(HeartbeatResponse) == HeartbeatResponse()
    with pytest.raises(ContentError, match="`topic`"):
        command.read(RouteRequest)


@pytest.mark.parametrize(
    "fields",
    [
        '{"consumerGroup":"G","topic":"T","queueId":"three"}',
        '{"consumerGroup":"G","topic":"T","queueId":""}',
        '{"consumerGroup":"G","topic":{"name":"T"},"queueId":"3"}',
        '{"consumerGroup":"G","topic":["T"],"queueId":"3"}',
        '["topic"]',
        '"topic"',
        "7",
    ],
)
def test_a_field_of_the_wrong_type_is_refused(fields: str) -> None:
    command = received(fields)
    with pytest.raises(ContentError):
        command.read(QueryConsumerOffsetRequest)


@pytest.mark.parametrize("fields", [b'{"topic":"\xff"}', b'{"\xff":"T"}', b'["T"]', b'{"a":{}}'])
def test_fields_that_are_no_table_of_texts_are_refused(fields: bytes) -> None:
    command = json.decode(b'{"code":14,"extFields":%b}' % fields, b"")
    with pytest.raises(ContentError):
        command.read(RouteRequest)
    with pytest.raises(ContentError):
        _ = command.fields
