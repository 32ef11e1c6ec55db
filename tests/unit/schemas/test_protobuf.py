"""Protobuf without generated code: values and bytes, evolution, and bodies that mean harm."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.schemas import BodyError, Schema, SchemaError, SchemaType, ValueMismatchError
from pocketmq.schemas.protobuf import values
from pocketmq.schemas.protobuf.codec import ProtobufCodec

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/wrappers.proto";
enum Channel { WEB = 0; SHOP = 1; }
message Order {
  message Line { string sku = 1; int32 count = 2; }
  int64 id = 1;
  repeated Line lines = 2;
  map<string, double> prices = 3;
  Channel channel = 4;
  bytes seal = 5;
  optional string note = 6;
  google.protobuf.Timestamp placed = 7;
  google.protobuf.Duration took = 8;
  google.protobuf.Struct more = 9;
  google.protobuf.StringValue nick = 10;
  oneof payment { string card = 11; uint64 voucher = 12; }
}
message Refund { int64 order = 1; }
message Deep { Deep next = 1; }
"""
VALUE: dict[str, Any] = {
    "id": 2**60 + 1,
    "lines": [{"sku": "a", "count": 2}],
    "prices": {"a": 1.5},
    "channel": "SHOP",
    "seal": b"\x00\xff",
    "placed": datetime(2026, 1, 31, 12, 0, 0, 250_000, tzinfo=UTC),
    "took": timedelta(seconds=-90, microseconds=5),
    "more": {"a": [1.0, None, {"b": True}]},
    "nick": "bo",
    "voucher": 2**63,
}


def proto(text: str) -> Schema:
    return Schema(text, SchemaType.PROTOBUF)


@pytest.fixture(scope="module")
def codec() -> ProtobufCodec:
    return ProtobufCodec(proto(ORDER))


def test_values_come_back_as_they_were(codec: ProtobufCodec) -> None:
    assert codec.message == "shop.Order"
    assert codec.decode(codec.encode(VALUE)) == VALUE


def test_fields_that_cannot_be_absent_have_their_defaults(codec: ProtobufCodec) -> None:
    assert codec.decode(b"") == {
        "id": 0, "lines": [], "prices": {}, "channel": "WEB", "seal": b"",
    }  # fmt: skip


def test_the_place_of_the_message_type_goes_before_the_message(codec: ProtobufCodec) -> None:
    assert codec.encode_indexed({"id": 1}) == b"\x00\x08\x01"
    line = ProtobufCodec(proto(ORDER), message="shop.Order.Line")
    assert line.encode_indexed({"sku": "a"}) == b"\x04\x00\x00\x0a\x01a"
    assert codec.decode_indexed(line.encode_indexed({"sku": "a"})) == {"sku": "a", "count": 0}
    refund = ProtobufCodec(proto(ORDER), message="shop.Refund")
    assert codec.decode_indexed(refund.encode_indexed({"order": 3})) == {"order": 3}


def test_a_reader_leaves_out_what_it_does_not_know(codec: ProtobufCodec) -> None:
    newer = ProtobufCodec(
        proto(
            'syntax = "proto3"; package shop; '
            "message Order { int64 id = 1; string channel_name = 40; }"
        )
    )
    reading = ProtobufCodec(proto(ORDER), reader=newer)
    assert reading.decode(codec.encode(VALUE)) == {"id": 2**60 + 1, "channel_name": ""}


def test_a_reader_of_another_message_type_is_refused(codec: ProtobufCodec) -> None:
    refund = ProtobufCodec(proto(ORDER), message="shop.Refund")
    with pytest.raises(BodyError, match=r"of message type shop\.Refund, and shop\.Order is wanted"):
        ProtobufCodec(proto(ORDER), reader=codec).decode_indexed(refund.encode_indexed({}))


def test_imported_files_are_known() -> None:
    money = proto('syntax = "proto3"; package shop; message Money { int64 cents = 1; }')
    text = """syntax = "proto3"; import "shop/money.proto"; message Bill { shop.Money sum = 1; }"""
    codec = ProtobufCodec(proto(text), {"shop/money.proto": money})
    assert codec.decode(codec.encode({"sum": {"cents": 5}})) == {"sum": {"cents": 5}}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"idd": 1}, 'no field named "idd"'),
        ({"id": "x"}, "id"),
        ({"channel": "MOON"}, "MOON"),
        ([], "does not fit"),
        ({"lines": 3}, "lines"),
    ],
)
def test_values_that_do_not_fit_are_refused(codec: ProtobufCodec, value: Any, said: str) -> None:
    with pytest.raises(ValueMismatchError, match=said):
        codec.encode(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("message", "pocketmq-schema.proto:1"),
        ('syntax = "proto3"; import "gone.proto"; message A {}', "gone.proto"),
        ('syntax = "proto3";', "no message type"),
        ('syntax = "proto3"; message A { B b = 1; }', "B"),
    ],
)
def test_texts_that_are_no_schema_are_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        ProtobufCodec(proto(text))


def test_an_unknown_message_type_is_named_with_those_that_there_are() -> None:
    with pytest.raises(SchemaError, match=r"no message type Order.*shop\.Order, shop\.Order\.Line"):
        ProtobufCodec(proto(ORDER), message="Order")


@pytest.mark.parametrize("name", ["../evil.proto", "/etc/evil.proto", "a\\b.proto", "a\nb", ""])
def test_imports_stay_in_their_folder(name: str) -> None:
    with pytest.raises(SchemaError, match="no name of an imported file"):
        ProtobufCodec(proto(ORDER), {name: proto("")})


@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error_of_the_body(codec: ProtobufCodec, body: bytes) -> None:
    try:
        value = codec.decode_indexed(body)
    except BodyError:
        return
    assert isinstance(value, dict)


def test_deep_messages_end_in_an_error(codec: ProtobufCodec) -> None:
    deep = ProtobufCodec(proto(ORDER), message="shop.Deep")
    body = b""
    for _ in range(1000):
        size = len(body)
        body = b"\x0a" + bytes([size & 0x7F | 0x80, size >> 7 & 0x7F]) + body
    with pytest.raises(BodyError, match=r"no message of type shop\.Deep"):
        deep.decode(body)


def test_a_body_has_a_bounded_number_of_values(
    codec: ProtobufCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(values, "VALUES_MAX", 1000)
    with pytest.raises(BodyError, match="more than 1000 values"):
        codec.decode(b"\x12\x00" * 1000)


def test_times_that_no_calendar_has_are_an_error(codec: ProtobufCodec) -> None:
    with pytest.raises(BodyError, match="which no calendar has"):
        codec.decode(b"\x3a\x08\x08" + b"\xff" * 6 + b"\x7f")
