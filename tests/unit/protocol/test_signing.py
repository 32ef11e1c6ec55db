"""Signatures against those that Apache's classes made."""

from __future__ import annotations

import msgspec
import pytest

from pocketmq.protocol import signing
from pocketmq.protocol.errors import ConfigError
from pocketmq.protocol.requests.queries import QueryMessageRequest
from pocketmq.protocol.signing import (
    Credentials,
    SigningKey,
    sign,
    signature,
    signed_form,
    signed_text,
)
from pocketmq.protocol.wire.command import Command

CREDENTIALS = Credentials("rocketmq", "12345678")
HEARTBEAT = (
    b'{"clientID":"c1","consumerDataSet":[],"heartbeatFingerprint":0,'
    b'"producerDataSet":[{"groupName":"PG"}],"withoutSub":false}'
)
SEND = {
    "a": "PG", "b": "TopicA", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000",
    "h": "0", "i": "KEYS\x01k1\x02", "j": "0", "k": "false", "m": "false",
}  # fmt: skip
SEARCH = {
    "topic": "TopicA", "key": "k1", "maxNum": "32", "beginTimestamp": "0",
    "endTimestamp": str(2**63 - 1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "body", "credentials", "text", "expected"),
    [
        (
            SEND, b"hello", CREDENTIALS,
            "rocketmqPGTopicATBW10241017000000000000KEYS\x01k1\x020falsefalse",
            "Y8zJ+p2g0tso4StoL0m6gNh/cEU=",
        ),
        (
            {}, HEARTBEAT, Credentials("rocketmq", "12345678", "tok"),
            "rocketmqtok", "AtC9HZN1P7GVeUjfTC5xKkW4WVg=",
        ),
        (
            SEARCH | {"_UNIQUE_KEY_QUERY": "true"}, b"", CREDENTIALS,
            "rocketmqtrue09223372036854775807k132TopicA", "NlE4slgw/c/M3+m1bUCqwD+3ktw=",
        ),
        (
            SEARCH, b"", CREDENTIALS,
            "rocketmq09223372036854775807k132TopicA", "FM7/uV4yJM1iXhYEOXsiXHv42Pc=",
        ),
        ({}, b"", CREDENTIALS, "rocketmq", "wmnVRiuXwvgUxJ6oySLyc1qu7Z4="),
        (
            {"topic": "主题", "queueId": "0"}, b"", Credentials("用户", "密码12345678"),
            "用户0主题", "wp0SY7sI4LwrDouqe9tS6QRfK28=",
        ),
    ],
)  # fmt: skip
def test_requests_are_signed_as_apaches_client_signs(
    fields: dict[str, str], body: bytes, credentials: Credentials, text: str, expected: str
) -> None:
    command = Command(0, extra=fields, body=body)
    sign(command, credentials)
    assert command.extra is not None
    assert signed_text(command.extra).decode() == text
    assert command.extra["Signature"] == expected
    assert fields == {name: command.extra[name] for name in fields}
    sign(command, credentials)
    assert command.extra["Signature"] == expected, "signing twice changes nothing"


def test_typed_headers_are_signed_as_they_are_written() -> None:
    header = QueryMessageRequest(
        topic="TopicA", key="k1", max_num=32, begin_timestamp=0, end_timestamp=2**63 - 1,
        unique_key_query="true",
    )  # fmt: skip
    command = Command(header.code, header=header)
    sign(command, CREDENTIALS)
    assert command.extra == {
        "AccessKey": "rocketmq",
        "Signature": "NlE4slgw/c/M3+m1bUCqwD+3ktw=",
    }


def test_native_values_are_signed_as_texts() -> None:
    assert signed_text({"b": True, "a": 12, "c": None, "Signature": "x"}) == b"12true"


def test_names_are_in_the_order_of_javas_strings() -> None:
    fields = {"\U0001f600": "3", "\uffee": "4", "z": "2", "": "0", "Z": "1"}
    assert signed_text(fields) == b"01234"


def test_a_view_is_signed_as_its_bytes() -> None:
    assert signature("s", b"t", memoryview(b"body")) == signature("s", b"t", b"body")


def test_credentials_do_not_show_the_secret() -> None:
    assert "12345678" not in repr(CREDENTIALS)
    assert "12345678" not in f"{CREDENTIALS}"


@pytest.mark.parametrize(("name", "secret"), [("", "x"), ("x", "")])
def test_credentials_are_whole(name: str, secret: str) -> None:
    with pytest.raises(ConfigError, match="both"):
        Credentials(name, secret)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"accessKey": name, "secretKey": secret}, Credentials)


@pytest.mark.parametrize("secret", ["x", "密码", "k" * 64, "k" * 65, "k" * 1000])
@pytest.mark.parametrize("body", [b"", b"body", memoryview(b"b" * 100_000)])
def test_a_ready_key_signs_as_any_other(secret: str, body: bytes) -> None:
    key = SigningKey(secret)
    assert key.signature(b"text", body).decode() == signature(secret, b"text", body)
    assert secret not in repr(key)


def test_a_field_that_the_peer_has_not_signed_is_left_out() -> None:
    fields: dict[str, object] = {"b": "B", "a": 1, "c": True, "Signature": "s"}
    assert signed_form(fields) == (b"1Btrue", {"b": "B", "a": "1", "c": "true", "Signature": "s"})
    assert signed_form(fields, "a")[0] == b"Btrue"
    assert signed_form({"Signature": "s"}) == (b"", {"Signature": "s"})
    assert signed_form({"only": "abc"})[0] == b"abc"


def test_forms_of_requests_are_remembered_within_limits() -> None:
    for number in range(2 * signing._ORDERS_MAX):
        assert signed_text({f"field{number}": "1", "x" * 1000: "2"}) == b"12"
        assert signed_text({f"field{number}": "1", "Signature": "s", "a": "0"}) == b"01"
    assert len(signing._ORDERS) <= signing._ORDERS_MAX
    assert not any("x" * 1000 in names for names, _ in signing._ORDERS)
