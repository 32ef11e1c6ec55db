from __future__ import annotations

import random
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import BODIES, INT32, INT64, PROPERTIES

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import compression
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.records import (
    BORN_HOST_AT,
    PHYSICAL_OFFSET_AT,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    SYS_FLAG_AT,
    check_record,
    decode_records,
    encode_record,
    read_store_timestamp,
)

GOLDEN = bytes.fromhex(
    "00000078daa320a73610a686000000010000000300000000000000090000000000000000000000000000018bcfe568"
    "000a0000010000c3500000018bcfe56801c0a8010200002a9f0000000000000000000000000000000568656c6c6f06"
    "546f706963410012544147530154616741024b455953016b3102"
)
GOLDEN_FIELDS: dict[str, Any] = {
    "topic": b"TopicA",
    "queue_id": 1,
    "flag": 3,
    "queue_offset": 9,
    "physical_offset": 0,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000,
    "born_host": encode_host("10.0.0.1", 50000),
    "store_timestamp": 1_700_000_000_001,
    "store_host": encode_host("192.168.1.2", 10911),
    "reconsume_times": 0,
    "prepared_transaction_offset": 0,
    "body": b"hello",
    "properties": b"TAGS\x01TagA\x02KEYS\x01k1\x02",
}

HOSTS = st.builds(
    encode_host,
    st.ip_addresses(v=4).map(str) | st.sampled_from(["::1", "fe80::1", "2001:db8::7"]),
    st.integers(0, 0xFFFF),
)
PLAIN_SYS_FLAGS = INT32.map(lambda bits: bits & ~flags.COMPRESSED)
RECORDS = st.fixed_dictionaries(
    {
        "topic": st.text(st.sampled_from("%|-_aZ9é"), max_size=200).map(str.encode),
        "queue_id": INT32,
        "flag": INT32,
        "queue_offset": INT64,
        "physical_offset": st.integers(0, (1 << 63) - 1),
        "sys_flag": PLAIN_SYS_FLAGS,
        "born_timestamp": INT64,
        "born_host": HOSTS,
        "store_timestamp": INT64,
        "store_host": HOSTS,
        "reconsume_times": INT32,
        "prepared_transaction_offset": INT64,
        "body": BODIES,
        "properties": PROPERTIES.map(props.encode_checked),
    }
)


def test_writes_the_record_of_the_real_broker() -> None:
    assert encode_record(**GOLDEN_FIELDS).hex() == GOLDEN.hex()


def test_reads_the_record_of_the_real_broker() -> None:
    (m,) = decode_records(GOLDEN, "broker-a")
    assert (m.topic, m.body, m.flag, m.queue_id, m.queue_offset) == ("TopicA", b"hello", 3, 1, 9)
    assert m.properties == {"TAGS": "TagA", "KEYS": "k1"}
    assert (m.born_host, m.store_host) == ("10.0.0.1:50000", "192.168.1.2:10911")
    assert (m.born_timestamp, m.store_timestamp) == (1_700_000_000_000, 1_700_000_000_001)
    assert (m.body_crc, m.store_size, m.broker_name) == (0x3610A686, 0x78, "broker-a")
    assert m.offset_msg_id == "C0A8010200002A9F0000000000000000"
    assert (m.reconsume_times, m.prepared_transaction_offset, m.sys_flag) == (0, 0, 0)


def test_an_ipv6_host_adds_12_bytes_and_its_flag() -> None:
    record = encode_record(**{**GOLDEN_FIELDS, "born_host": encode_host("::1", 50000)})
    assert len(record) == len(GOLDEN) + 12
    assert int.from_bytes(record[SYS_FLAG_AT : SYS_FLAG_AT + 4], "big") == flags.BORN_HOST_V6
    assert check_record(record, 0, len(record)) == len(record)
    assert next(decode_records(record)).born_host == "[::1]:50000"


def test_a_sender_cannot_claim_ipv6_for_an_ipv4_host() -> None:
    claimed = flags.BORN_HOST_V6 | flags.STORE_HOST_V6 | flags.MULTI_TAGS
    record = encode_record(**{**GOLDEN_FIELDS, "sys_flag": claimed})
    (m,) = decode_records(record)
    assert (m.sys_flag, m.born_host) == (flags.MULTI_TAGS, "10.0.0.1:50000")


@pytest.mark.parametrize(
    ("size", "magic"), [(127, "daa320a7"), (128, "daa320ab"), (255, "daa320ab")]
)
def test_long_topics_have_another_magic(size: int, magic: str) -> None:
    record = encode_record(**{**GOLDEN_FIELDS, "topic": b"t" * size})
    assert record[4:8].hex() == magic
    assert check_record(record, 0, len(record)) == len(record)
    assert next(decode_records(record)).topic == "t" * size


@given(RECORDS)
def test_encode_check_decode(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    assert check_record(record, 0, len(record)) == len(record)
    assert read_store_timestamp(record) == fields["store_timestamp"]
    (m,) = decode_records(record)
    for name in (
        "queue_id", "flag", "queue_offset", "physical_offset", "born_timestamp", "store_timestamp",
        "reconsume_times", "prepared_transaction_offset", "body",
    ):  # fmt: skip
        assert getattr(m, name) == fields[name]
    assert m.topic.encode() == fields["topic"]
    assert m.properties == props.decode(fields["properties"].decode())
    assert m.store_size == len(record)
    assert m.body_crc == zlib.crc32(fields["body"]) & 0x7FFFFFFF


@given(st.lists(RECORDS, max_size=4), BODIES)
def test_records_stand_back_to_back(many: list[dict[str, Any]], lead: bytes) -> None:
    data = b"".join(encode_record(**fields) for fields in many)
    assert [m.queue_offset for m in decode_records(data)] == [f["queue_offset"] for f in many]
    view, position = memoryview(lead + data), len(lead)
    for fields in many:
        assert read_store_timestamp(view, position) == fields["store_timestamp"]
        position += check_record(view, position, len(view))
    assert position == len(view)


@given(RECORDS)
def test_every_truncation_is_found(fields: dict[str, Any]) -> None:
    record = encode_record(**fields)
    for size in range(len(record)):
        assert check_record(record, 0, size) == 0
        if size:
            with pytest.raises(ContentError):
                list(decode_records(record[:size]))


@given(RECORDS, st.randoms(use_true_random=False))
def test_every_changed_byte_of_the_body_is_found(
    fields: dict[str, Any], chance: random.Random
) -> None:
    record = bytearray(encode_record(**fields))
    body_at = RECORD_SIZE_MIN - 3 + len(fields["born_host"]) + len(fields["store_host"]) - 16
    assert record[body_at : body_at + len(fields["body"])] == fields["body"]
    for at in range(body_at - 4, body_at + len(fields["body"])):  # the body's length included
        record[at] ^= (flip := chance.randrange(1, 256))
        assert check_record(memoryview(record), 0, len(record)) == 0
        record[at] ^= flip


@given(st.binary(max_size=400), st.integers(0, 400))
def test_garbage_is_no_record(garbage: bytes, position: int) -> None:
    assert check_record(garbage, min(position, len(garbage)), len(garbage)) == 0


@given(RECORDS, st.randoms(use_true_random=False))
def test_a_damaged_record_is_read_or_refused(fields: dict[str, Any], chance: random.Random) -> None:
    record = bytearray(encode_record(**fields))
    for _ in range(20):
        at = chance.randrange(len(record))
        record[at] ^= (flip := chance.randrange(1, 256))
        try:
            (m,) = decode_records(bytes(record), inflate=False)
        except ContentError:
            pass
        else:
            assert m.store_size == len(record)
        record[at] ^= flip


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (84, b"\xff\xff\xff\xff", "a body of -1 bytes"),
        (84, b"\x00\x00\x00\x06", "cannot be read|not 120 bytes"),
        (100, b"\x00\x11", "is not 120 bytes long"),
        (100, b"\x00\x13", "is not 120 bytes long"),
        (4, b"\xcb\xd4\x31\x94", "magic 0xcbd43194"),
        (0, b"\x00\x00\x00\x10", "size 16 of 120"),
        (0, b"\x00\x00\x00\x79", "size 121 of 120"),
        (94, b"\xff", "cannot be read"),
    ],
)
def test_lengths_that_contradict_each_other_are_named(at: int, value: bytes, reason: str) -> None:
    record = GOLDEN[:at] + value + GOLDEN[at + len(value) :]
    with pytest.raises(ContentError, match=reason):
        list(decode_records(record))
    if at != 94:  # text is not checked: a CRC stands for the body only
        assert check_record(record, 0, len(record)) == 0


def test_a_compressed_body_is_unpacked_unless_asked_otherwise() -> None:
    body, bits = compression.compress(b"hello " * 1000)
    record = encode_record(**{**GOLDEN_FIELDS, "body": body, "sys_flag": bits})
    unpacked, packed = next(decode_records(record)), next(decode_records(record, inflate=False))
    assert (unpacked.body, unpacked.sys_flag & flags.COMPRESSED) == (b"hello " * 1000, 0)
    assert (packed.body, packed.sys_flag) == (body, bits)


def test_a_body_that_cannot_be_unpacked_keeps_nobody_from_the_next_message() -> None:
    bad = encode_record(**{**GOLDEN_FIELDS, "body": b"bad", "sys_flag": flags.COMPRESSED})
    good = encode_record(**GOLDEN_FIELDS)
    with pytest.raises(ContentError, match="cannot be unpacked"):
        next(decode_records(bad + good))
    told: list[tuple[bytes, str]] = []
    first, second = decode_records(
        bad + good, on_damaged=lambda message, error: told.append((message.body, str(error)))
    )
    assert (first.body, first.sys_flag & flags.COMPRESSED) == (b"bad", flags.COMPRESSED)
    assert second.body == GOLDEN_FIELDS["body"]
    ((body, error),) = told
    assert body == b"bad"
    assert "cannot be unpacked" in error


def test_properties_that_are_no_text_are_read_as_java_does() -> None:
    record = encode_record(**{**GOLDEN_FIELDS, "properties": b"a\x01\xff\x02b\x01c\x02"})
    assert next(decode_records(record)).properties == {"a": "\ufffd", "b": "c"}


def test_places_of_the_fields_that_a_broker_fills_in() -> None:
    record = bytearray(encode_record(**GOLDEN_FIELDS))
    record[QUEUE_OFFSET_AT : QUEUE_OFFSET_AT + 8] = (77).to_bytes(8, "big")
    record[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8] = (88).to_bytes(8, "big")
    record[BORN_HOST_AT : BORN_HOST_AT + 8] = encode_host("9.8.7.6", 5)
    (m,) = decode_records(bytes(record))
    assert (m.queue_offset, m.physical_offset, m.born_host) == (77, 88, "9.8.7.6:5")
