from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.ids import (
    offset_msg_id,
    offset_msg_ids,
    parse_offset_msg_id,
    unique_key,
    unique_key_month_ms,
)


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("192.168.1.2", "C0A8010200002A9F000000123456789A"),
        ("fe80::1", "FE80000000000000000000000000000100002A9F000000123456789A"),
    ],
)
def test_the_ids_of_the_real_broker(host: str, text: str) -> None:
    assert offset_msg_id(encode_host(host, 10911), 0x123456789A) == text
    stored_at = parse_offset_msg_id(text)
    assert stored_at.physical_offset == 0x123456789A
    assert stored_at.store_host.strip("[]").startswith(host)
    assert parse_offset_msg_id(text.lower()) == stored_at


@given(st.ip_addresses().map(str), st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=9))
def test_the_ids_of_several_messages(host: str, offsets: list[int]) -> None:
    encoded = encode_host(host, 10911)
    assert offset_msg_ids(encoded, offsets) == ",".join(offset_msg_id(encoded, o) for o in offsets)


@given(st.ip_addresses().map(str), st.integers(0, 0xFFFF), st.integers(0, (1 << 63) - 1))
def test_round_trip(host: str, port: int, physical_offset: int) -> None:
    text = offset_msg_id(encode_host(host, port), physical_offset)
    stored_at = parse_offset_msg_id(text)
    assert stored_at.physical_offset == physical_offset
    assert stored_at.store_host.endswith(f":{port}")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "C0A80102",
        "C0A8010200002A9F000000123456789",
        "C0A8010200002A9F000000123456789AA",
        "G0A8010200002A9F000000123456789A",
        "C0A80102 0002A9F000000123456789A",
        "C0 A8 01 02 00 00 2A 9F 00 00 00",
        "C0A8010200002A9F000000123456789é",
        "C0A8010200002A9F00000012345678 9A ",
    ],
)
def test_what_is_no_id_is_named_with_the_remedy(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no offset message id: .* can only be looked up"):
        parse_offset_msg_id(text)


def test_unique_key_has_the_parts_of_the_real_one() -> None:
    prefix = bytes.fromhex("0a0000010539deadbeef")
    assert unique_key(prefix, 0x01020304, 0x0506) == "0A0000010539DEADBEEF010203040506"
    assert len(unique_key(prefix, 0, 0)) == 32
    assert unique_key(prefix, 0, 0x1_0001).endswith("000000000001")


def test_a_unique_key_tells_the_time_within_its_month() -> None:
    assert unique_key_month_ms(unique_key(bytes(10), 0x01020304, 0x0506)) == 0x01020304
    assert unique_key_month_ms(unique_key(bytes(22), 0, 1)) == 0
    assert unique_key_month_ms("Z" * 32) is None
    assert unique_key_month_ms("F" * 32) is None  # later than any month ends
    assert unique_key_month_ms("01020304") is None


def test_unique_key_differs_all_through_a_month() -> None:
    prefix, day_ms = bytes(10), 86_400_000
    keys = {unique_key(prefix, day * day_ms + 2**31 % day_ms, 0) for day in range(31)}
    assert len(keys) == 31
    assert unique_key(prefix, 5, 0) != unique_key(prefix, 5 + 2**31, 0)
