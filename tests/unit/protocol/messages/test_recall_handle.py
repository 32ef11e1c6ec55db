from __future__ import annotations

from base64 import urlsafe_b64encode

import pytest

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.recall_handle import (
    TIME_UNREADABLE,
    RecallHandle,
    parse_recall_handle,
)

# As a broker of RocketMQ 5.5.0 gave it.
RECORDED = "djEgVCBicm9rZXItYSAxNzk1MjU2NDA5MDAxIEMwMDAwMjAyMDQ2QzQ4ODk0NDdBNjkzNkUxNzA5MDAz"
READ = RecallHandle("T", "broker-a", 1_795_256_409_001, "C0000202046C4889447A6936E1709003")


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_reads_and_writes_what_rocketmq_writes() -> None:
    assert parse_recall_handle(RECORDED) == READ
    assert READ.encode() == RECORDED


@pytest.mark.parametrize("key", ["K", "KK", "KKK", "key-ü"])
def test_padding_may_be_left_out(key: str) -> None:
    handle = READ._replace(unique_key=key)
    text = handle.encode()
    assert parse_recall_handle(text) == parse_recall_handle(text.rstrip("=")) == handle


@pytest.mark.parametrize(
    "text",
    [
        "", "nonsense", "&&&", "=", "A", RECORDED + "\n", RECORDED + " x", RECORDED[:-52],
        encoded("v2 T broker-a 5 K"), encoded("v1 T broker-a 5"), encoded(""),
        encoded("v1").rstrip("=") + "ü",
    ],
)  # fmt: skip
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="recall handle is invalid: give the recallHandle"):
        parse_recall_handle(text)


@pytest.mark.parametrize("time", ["x", "", "1e3", "9" * 30, "١"])
def test_a_time_that_cannot_be_read_is_long_over(time: str) -> None:
    assert parse_recall_handle(encoded(f"v1 T b {time} K")).timestamp_ms == TIME_UNREADABLE
