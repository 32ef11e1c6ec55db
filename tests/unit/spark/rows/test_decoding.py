"""Vectorised decoding gives what the protocol's own decoder gives."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pocketmq.protocol import flags
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages import records
from pocketmq.protocol.messages.compression import compress
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.spark.rows.decoding import SCHEMA, decode_records, read_schema
from pocketmq.spark.rows.parts import RecordPart, joined, sized_part

TEXT = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=12)
HOST = st.sampled_from([encode_host("10.0.0.7", 10911), encode_host("::7", 10911)])
NAMES = st.sampled_from(["UNIQ_KEY", "KEYS", "TAGS", "x", "y"]) | TEXT
TIMES = st.integers(0, 4_000_000_000_000)
RECORD = st.fixed_dictionaries(
    {
        "topic": st.sampled_from(["T", "Täglich", "t" * 127, "t" * 300]).map(str.encode),
        "queue_id": st.integers(0, 2**31 - 1),
        "flag": st.just(0),
        "queue_offset": st.integers(0, 2**62),
        "physical_offset": st.integers(0, 2**62),
        "sys_flag": st.just(0),
        "born_timestamp": TIMES,
        "born_host": HOST,
        "store_timestamp": TIMES,
        "store_host": HOST,
        "reconsume_times": st.integers(0, 100),
        "prepared_transaction_offset": st.just(0),
        "body": st.binary(max_size=200),
        # Pairs, not a mapping: two of the same name can be on the wire.
        "properties": st.lists(st.tuples(NAMES, TEXT), max_size=6).map(
            lambda pairs: "".join(f"{k}\x01{v}\x02" for k, v in pairs).encode()
        ),
    }
)


def encode(fields: dict[str, Any]) -> bytes:
    return records.encode_record(**fields)


def rows_expected(data: bytes, broker_name: str) -> list[dict[str, Any]]:
    return [
        {
            "topic": m.topic,
            "brokerName": broker_name,
            "queueId": m.queue_id,
            "queueOffset": m.queue_offset,
            "msgId": m.msg_id,
            "keys": m.properties.get("KEYS"),
            "tags": m.properties.get("TAGS"),
            "value": m.body,
            "properties": m.properties,
            "bornTimestamp": m.born_timestamp,
            "storeTimestamp": m.store_timestamp,
            "reconsumeTimes": m.reconsume_times,
        }
        for m in records.decode_records(data, broker_name)
    ]


def rows_of(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_pylist()
    for row in rows:
        assert len(dict(row["properties"])) == len(row["properties"]), "a name stands twice"
        row["properties"] = dict(row["properties"])
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = round(row[name].timestamp() * 1000)
    return rows


@settings(deadline=None)
@given(st.lists(RECORD, max_size=20))
def test_rows_are_the_messages_of_decode_records(given_records: list[dict[str, Any]]) -> None:
    data = b"".join(map(encode, given_records))
    batch = decode_records(data, "broker-a")
    assert batch.schema == SCHEMA
    assert rows_of(batch) == rows_expected(data, "broker-a")


PLAIN: dict[str, Any] = {
    "topic": b"T", "queue_id": 2, "flag": 0, "queue_offset": 5, "physical_offset": 100,
    "sys_flag": 0,
    "born_timestamp": 1_700_000_000_000, "born_host": encode_host("10.0.0.7", 1),
    "store_timestamp": 1_700_000_000_001, "store_host": encode_host("10.0.0.8", 2),
    "reconsume_times": 0, "prepared_transaction_offset": 0, "body": b"hello",
    "properties": b"TAGS\x01red\x02",
}  # fmt: skip


def test_compressed_bodies_are_unpacked() -> None:
    packed, bits = compress(b"long " * 1000)
    assert bits & flags.COMPRESSED
    data = encode(PLAIN) + encode({**PLAIN, "body": packed, "sys_flag": bits})
    assert decode_records(data, "a")["value"].to_pylist() == [b"hello", b"long " * 1000]


def test_messages_from_an_offset_on_are_left_out() -> None:
    data = b"".join(encode({**PLAIN, "queue_offset": offset}) for offset in range(5, 9))
    assert decode_records(data, "a", offset_end=7)["queueOffset"].to_pylist() == [5, 6]
    assert decode_records(data, "a", offset_end=5).num_rows == 0


def test_the_topic_can_be_given_and_the_properties_left_out() -> None:
    batch = decode_records(encode(PLAIN), "a", topic="Other", with_properties=False)
    assert batch.schema == read_schema(with_properties=False)
    assert "properties" not in batch.schema.names
    assert batch["topic"].to_pylist() == ["Other"]


@pytest.mark.parametrize("names", [["value"], ["keys", "queueOffset"], ["properties", "tags"]])
def test_only_the_columns_that_are_wanted_are_made(names: list[str]) -> None:
    data = encode(PLAIN) + encode({**PLAIN, "body": b"x", "properties": b"KEYS\x01k\x02"})
    batch = decode_records(data, "a", columns=names)
    whole = decode_records(data, "a")
    assert sorted(batch.schema.names) == sorted(names)
    assert all(batch[name].equals(whole[name]) for name in names)
    assert decode_records(data, "a", columns=[]).equals(whole), "a batch of no column has no rows"
    red = decode_records(data, "a", columns=["value"], tags=frozenset({"red"}))
    assert red.to_pylist() == [{"value": b"hello"}]


@pytest.mark.parametrize("cut", [1, 30, 91, 100, 105])
def test_a_record_that_is_cut_off_is_refused(cut: int) -> None:
    whole = encode(PLAIN)
    with pytest.raises(ContentError):
        decode_records(whole + whole[:cut], "a")


@pytest.mark.parametrize("at", [0, 4, 84, 93, 95])
def test_a_damaged_length_or_magic_is_refused(at: int) -> None:
    damaged = bytearray(encode(PLAIN))
    damaged[at] ^= 0x7F
    with pytest.raises(ContentError):
        decode_records(bytes(damaged) + encode(PLAIN), "a")


@settings(deadline=None)
@given(st.lists(RECORD, min_size=1, max_size=4), st.data())
def test_damaged_bytes_never_do_worse_than_a_content_error(
    given_records: list[dict[str, Any]], data: st.DataObject
) -> None:
    damaged = bytearray(b"".join(map(encode, given_records)))
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        rows = decode_records(bytes(damaged), "a").num_rows
    except ContentError:
        return
    assert rows == len(given_records)


def with_sizes(encoded: list[bytes]) -> bytes:
    return b"".join([*encoded, *(len(record).to_bytes(4, "big") for record in encoded)])


@settings(deadline=None)
@given(st.lists(st.lists(RECORD, max_size=6), max_size=4), st.booleans())
def test_parts_whose_sizes_are_told_give_the_same_rows(
    given_parts: list[list[dict[str, Any]]], one_is_not_told: bool
) -> None:
    encoded = [list(map(encode, part)) for part in given_parts]
    parts = [sized_part(with_sizes(records), len(records)) for records in encoded]
    if one_is_not_told and parts:
        parts[-1] = RecordPart(b"".join(encoded[-1]))
    part = joined(parts)
    data = b"".join(itertools.chain.from_iterable(encoded))
    assert bool(part) == bool(data)
    assert rows_of(decode_records(part, "broker-a")) == rows_expected(data, "broker-a")


@pytest.mark.parametrize(
    "sizes",
    [[0, 212], [212, 0], [105, 107], [107, 105], [106], [106] * 3, [212], [2**32 - 1] * 2],
)
def test_sizes_that_do_not_fit_are_refused(sizes: list[int]) -> None:
    body = encode(PLAIN) * 2
    assert len(body) == 212
    with pytest.raises(ContentError):
        sized_part(body + b"".join(size.to_bytes(4, "big") for size in sizes), len(sizes))


@pytest.mark.parametrize("count", [-1, 3, 1 << 40])
def test_a_count_of_sizes_that_cannot_be_is_refused(count: int) -> None:
    with pytest.raises(ContentError, match="do not fit"):
        sized_part(with_sizes([encode(PLAIN)] * 2), count)
