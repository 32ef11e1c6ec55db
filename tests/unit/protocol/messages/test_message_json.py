from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import INT32, PLAIN_TEXT, PROPERTIES
from unit.protocol.messages.test_records import GOLDEN, GOLDEN_FIELDS

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.messages.message_json import (
    NOT_SENT_AGAIN,
    document_of_line,
    message_document,
    message_line,
)
from pocketmq.protocol.messages.records import decode_records, encode_record

# What no word list can hold, too: blanks of all kinds between and around keys.
KEYS = st.text(st.sampled_from(["a", "ß", " ", "\t", "\u3000", '"', "\n", "🦜"]), min_size=1)
# What brokers write, or wait by, is no property of an application's own.
NOT_OWN = NOT_SENT_AGAIN | {props.DELAY, *props.TIMER_PROPERTIES}
OWN = PROPERTIES.map(lambda own: {k: v for k, v in own.items() if k not in NOT_OWN})
SPECIAL = st.fixed_dictionaries(
    {}, optional={props.KEYS: KEYS, props.TAGS: PLAIN_TEXT, props.SHARDING_KEY: PLAIN_TEXT}
)


def stored(body: bytes = b"hello", properties: dict[str, str] | None = None, flag: int = 0) -> Any:
    fields = {**GOLDEN_FIELDS, "body": body, "flag": flag}
    if properties is not None:
        fields["properties"] = props.encode_checked(properties)
    (message,) = decode_records(encode_record(**fields), "broker-a")
    return message


def sent_again(message: ReceivedMessage, *, keep_id: bool = False) -> Message:
    return document_of_line(message_line(message)).message("Other", keep_id=keep_id)


def test_everything_is_shown() -> None:
    (message,) = decode_records(GOLDEN, "broker-a")
    assert message_document(message) == {
        "topic": "TopicA",
        "broker": "broker-a",
        "queue": 1,
        "offset": 9,
        "msgId": message.offset_msg_id,
        "keys": ["k1"],
        "tags": "TagA",
        "properties": {},
        "flag": 3,
        "bornTimestamp": 1_700_000_000_000,
        "storeTimestamp": 1_700_000_000_001,
        "body": "hello",
    }


@given(st.binary(min_size=1, max_size=100) | PLAIN_TEXT.map(str.encode), OWN, SPECIAL, INT32)
def test_a_copy_has_the_bytes_and_properties(
    body: bytes, own: dict[str, str], special: dict[str, str], flag: int
) -> None:
    properties = own | special
    line = message_line(stored(body, properties, flag))
    assert len(line.decode().splitlines()) == 1
    copy = document_of_line(line).message("Other")
    assert (copy.topic, copy.body, copy.flag) == ("Other", body, flag)
    assert copy.properties == properties | {props.WAIT: "true"}


def test_no_reader_sees_the_end_of_a_line_within_a_message() -> None:
    line = message_line(stored("a\n\x85\u2028\u2029ü".encode()))
    assert len(line.decode().splitlines()) == 1
    assert document_of_line(line).content == "a\n\x85\u2028\u2029ü".encode()


def test_what_belongs_to_the_first_life_is_not_sent_again() -> None:
    life = dict.fromkeys(NOT_SENT_AGAIN, "x") | {"own": "1"}
    assert sent_again(stored(b"a", life)).properties == {"own": "1", "WAIT": "true"}


def test_the_id_is_kept_where_it_is_asked_for() -> None:
    message = stored(b"a", {props.UNIQ_KEY: "ID"})
    assert sent_again(message).unique_key is None
    assert sent_again(message, keep_id=True).unique_key == "ID"
    by_hand = document_of_line(b'{"body": "a", "msgId": "MINE"}')
    assert by_hand.message("T", keep_id=True).unique_key == "MINE"


@pytest.mark.parametrize("name", [props.DELAY, *props.TIMER_PROPERTIES])
def test_a_message_waits_once(name: str) -> None:
    assert sent_again(stored(b"a", {name: "3"})).properties[name] == "3"
    for waited in (props.REAL_TOPIC, props.TIMER_OUT_MS):
        assert name not in sent_again(stored(b"a", {name: "3", waited: "5"})).properties


def test_a_message_is_written_by_hand() -> None:
    line = '{"body": "é", "keys": ["1", "2"], "tags": "new", "properties": {"a": "b"}}'
    message = document_of_line(line.encode()).message("T")
    assert message.body == "é".encode()
    assert (message.keys, message.tags, message.properties["a"]) == (("1", "2"), "new", "b")
    assert document_of_line(b'{"bodyBase64": "AP8="}').message("T").body == b"\x00\xff"


def test_keys_may_stand_in_the_properties_too() -> None:
    line = {"body": "x", "keys": ["1", "2"], "properties": {"KEYS": "1  2"}}
    assert document_of_line(json.dumps(line).encode()).message("T").properties["KEYS"] == "1  2"
    line = {"body": "x", "tags": "t", "properties": {"TAGS": "t"}}
    assert document_of_line(json.dumps(line).encode()).message("T").tags == "t"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"body": "x"', "no JSON"),
        ("x", "no JSON"),
        ('["x"]', "object"),
        ('{"bodi": "x"}', "unknown field 'bodi'; did you mean 'body'?"),
        ('{"zzzz": "x"}', "there are body, bodyBase64, keys"),
        ('{"body": 5}', "Expected str"),
        ('{"body": "x", "properties": {"a": 5}}', "$.properties"),
        ('{"body": "x", "flag": 2147483648}', "$.flag"),
        ('{"body": "x", "queue": -1}', "$.queue"),
        ('{"body": "\\ud800"}', "no JSON"),
        ("{}", "one of the two"),
        ('{"body": "x", "bodyBase64": "eA=="}', "one of the two"),
        ('{"body": ""}', "empty"),
        ('{"bodyBase64": "e?=="}', "no base64"),
        ('{"body": "x", "keys": ["a b"]}', "space"),
        ('{"body": "x", "keys": ["a"], "properties": {"KEYS": "b"}}', "leave one out"),
        ('{"body": "x", "tags": "a", "properties": {"TAGS": "b"}}', "leave one out"),
    ],
)
def test_mistakes_are_told(line: str, reason: str) -> None:
    with pytest.raises(UsageError) as told:
        document_of_line(line.encode()).message("T")
    assert reason in str(told.value)
