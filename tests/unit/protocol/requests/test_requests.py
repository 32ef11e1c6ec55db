from __future__ import annotations

import importlib
import inspect
from typing import Any

import msgspec
import pytest

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.requests.clients import HeartbeatResponse, UnregisterClientRequest
from pocketmq.protocol.requests.nameserver import RegisterBrokerRequest, RouteRequest
from pocketmq.protocol.requests.offsets import UpdateConsumerOffsetRequest
from pocketmq.protocol.requests.pulling import LitePullMessageRequest, PullMessageRequest
from pocketmq.protocol.requests.sending import (
    SendBatchRequest,
    SendMessageRequest,
    SendMessageResponse,
    SendMessageV2Request,
)
from pocketmq.protocol.wire.header import Header, RequestHeader, text_fields, wire_fields

FAMILIES = (
    "clients",
    "consuming",
    "groups",
    "nameserver",
    "offsets",
    "pulling",
    "queries",
    "sending",
    "topics",
    "transactions",
)


def headers() -> list[type[Header]]:
    found: dict[str, type[Header]] = {}
    for family in FAMILIES:
        module = importlib.import_module(f"pocketmq.protocol.requests.{family}")
        for name, value in vars(module).items():
            if inspect.isclass(value) and issubclass(value, Header):
                found[name] = value
    found.pop("Header")
    found.pop("RequestHeader")
    return list(found.values())


ALL = headers()


def test_no_two_classes_claim_one_code() -> None:
    codes = [cls.code for cls in ALL if issubclass(cls, RequestHeader)]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_every_header_says_what_it_is_for(cls: type[Header]) -> None:
    assert cls.__doc__
    assert cls.__name__.endswith("Request" if issubclass(cls, RequestHeader) else "Response")


@pytest.mark.parametrize("cls", ALL, ids=lambda c: c.__name__)
def test_every_header_has_scalar_fields_under_distinct_names(cls: type[Header]) -> None:
    names = [name for _, name in wire_fields(cls)]
    assert len(names) == len(set(names))
    examples: dict[str, Any] = {}
    for f in msgspec.structs.fields(cls):
        types = [t for t in (str, int, bool) if t is f.type or t in getattr(f.type, "__args__", ())]
        assert len(types) == 1, f.name
        examples[f.name] = {str: "text", int: 7, bool: True}[types[0]]
    header = cls(**examples)
    assert msgspec.convert(text_fields(header), cls, strict=False) == header


def test_send_has_long_names() -> None:
    names = [name for _, name in wire_fields(SendMessageRequest)]
    assert names == [
        "batch", "bornTimestamp", "defaultTopic", "defaultTopicQueueNums", "flag",
        "maxReconsumeTimes", "producerGroup", "properties", "queueId", "reconsumeTimes", "sysFlag",
        "topic", "unitMode",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "code"),
    [
        (SendMessageV2Request, RequestCode.SEND_MESSAGE_V2),
        (SendBatchRequest, RequestCode.SEND_BATCH_MESSAGE),
    ],
)
def test_send_v2_has_one_letter_names(cls: type[SendMessageV2Request], code: RequestCode) -> None:
    assert cls.code == code
    assert [name for _, name in wire_fields(cls)] == list("abcdefghijklmn")
    header = cls(
        producer_group="PG",
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=1,
        sys_flag=2,
        born_timestamp=3,
        flag=5,
        properties="p",
        reconsume_times=0,
        unit_mode=False,
        batch=True,
        max_reconsume_times=16,
        broker_name="broker-a",
    )
    assert text_fields(header) == {
        "a": "PG", "b": "T", "c": "TBW102", "d": "4", "e": "1", "f": "2", "g": "3", "h": "5",
        "i": "p", "j": "0", "k": "false", "l": "16", "m": "true", "n": "broker-a",
    }  # fmt: skip


def test_both_forms_of_send_have_the_same_fields() -> None:
    plain = {f.name: (f.type, f.default) for f in msgspec.structs.fields(SendMessageRequest)}
    short = {f.name: (f.type, f.default) for f in msgspec.structs.fields(SendMessageV2Request)}
    assert short.pop("broker_name") == (str | None, None)
    assert short == plain


def test_names_that_are_not_camel_case() -> None:
    assert text_fields(HeartbeatResponse(is_support_heart_beat_v2=True, is_sub_change=False)) == {
        "IS_SUB_CHANGE": "false",
        "IS_SUPPORT_HEART_BEAT_V2": "true",
    }
    assert text_fields(UnregisterClientRequest(client_id="c")) == {"clientID": "c"}
    answer = SendMessageResponse(
        msg_id="m", queue_id=0, queue_offset=0, region="DefaultRegion", trace_on=True
    )
    assert text_fields(answer).keys() >= {"MSG_REGION", "TRACE_ON"}


def test_names_of_the_requests_that_matter_most() -> None:
    assert [n for _, n in wire_fields(PullMessageRequest)] == [
        "commitOffset", "consumerGroup", "expressionType", "liteTopic", "maxMsgBytes",
        "maxMsgNums", "queueId", "queueOffset", "requestSource", "subVersion", "subscription",
        "suspendTimeoutMillis", "sysFlag", "topic",
    ]  # fmt: skip
    assert wire_fields(LitePullMessageRequest) == wire_fields(PullMessageRequest)
    assert [n for _, n in wire_fields(UpdateConsumerOffsetRequest)] == [
        "commitOffset", "consumerGroup", "queueId", "topic",
    ]  # fmt: skip
    assert {n for _, n in wire_fields(RegisterBrokerRequest)} >= {
        "brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId",
        "heartbeatTimeoutMillis", "enableActingMaster", "compressed", "bodyCrc32",
    }  # fmt: skip
    assert {n for _, n in wire_fields(RouteRequest)} >= {"topic", "acceptStandardJsonOnly"}
