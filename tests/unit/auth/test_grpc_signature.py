"""Signatures of gRPC calls: RocketMQ's vector, and forms that are none."""

from __future__ import annotations

import pytest

from pocketmq.auth.grpc_signature import read_signature
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.signing import SigningKey

METADATA = {
    "x-mq-date-time": "20260101T000000Z",
    "authorization": "MQv2-HMAC-SHA1 Credential=ak/region/service, "
    "SignedHeaders=x-mq-date-time, Signature=52544C829A4056D79EF11C0F10E7F1D4AD89718C",
}


def test_apaches_vector() -> None:
    signature = read_signature(METADATA)
    assert signature.name == "ak"
    assert signature.is_of(SigningKey("sk1"))
    assert not signature.is_of(SigningKey("sk2"))


@pytest.mark.parametrize(
    "changes",
    [
        {"authorization": ""},
        {"x-mq-date-time": ""},
        {"authorization": "Basic abc"},
        {"authorization": "MQv2-HMAC-SHA1"},
        {"authorization": "MQv2-HMAC-SHA1 Credential=a"},
        {"authorization": "MQv2-HMAC-SHA1 Signature=b"},
    ],
)
def test_forms_that_are_none(changes: dict[str, str]) -> None:
    with pytest.raises(ContentError):
        read_signature({**METADATA, **changes})
