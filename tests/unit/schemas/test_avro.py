"""Avro: values and bytes, evolution, and bodies and schemas that mean harm."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.schemas import BodyError, Schema, SchemaError, ValueMismatchError
from pocketmq.schemas.avro.codec import AvroCodec
from pocketmq.schemas.avro.decimals import DECIMAL_SIZE_MAX
from pocketmq.schemas.avro.types import FREE_VALUES_MAX


def schema(document: Any) -> Schema:
    return Schema(json.dumps(document))


def record(*fields: Any, name: str = "shop.Order") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


ORDER = record(
    field("id", "long"),
    field("customer", ["null", "string"], default=None),
    field("total", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}),
    field("placed", {"type": "long", "logicalType": "timestamp-millis"}),
    field("lines", {"type": "array", "items": record(field("sku", "string"), name="Line")}),
)
VALUE = {
    "id": 7,
    "customer": "c1",
    "total": Decimal("12.50"),
    "placed": datetime(2026, 1, 31, 12, tzinfo=UTC),
    "lines": [{"sku": "a"}, {"sku": "b"}],
}
LIST = record(field("next", ["null", "shop.Order"]))


@pytest.mark.parametrize("is_careful", [False, True])
def test_values_come_back_as_they_were(is_careful: bool) -> None:
    codec = AvroCodec(schema(ORDER), is_careful=is_careful)
    assert codec.decode(codec.encode(VALUE)) == VALUE


def test_bytes_are_those_of_the_specification() -> None:
    payload = AvroCodec(schema(record(field("a", "long"), field("b", "string")))).encode(
        {"a": 27, "b": "foo"}
    )
    assert payload == bytes.fromhex("36 06 66 6f 6f")


def test_a_reader_leaves_out_old_fields_and_fills_in_new_ones() -> None:
    old = AvroCodec(schema(ORDER))
    newer = record(field("id", "double"), field("channel", "string", default="web"))
    reading = AvroCodec(schema(ORDER), reader=AvroCodec(schema(newer)))
    assert reading.decode(old.encode(VALUE)) == {"id": 7.0, "channel": "web"}


def test_a_reader_that_needs_what_was_not_written_is_told() -> None:
    needs = AvroCodec(schema(record(field("must", "string"))))
    with pytest.raises(BodyError, match="must"):
        AvroCodec(schema(ORDER), reader=needs).decode(AvroCodec(schema(ORDER)).encode(VALUE))


@pytest.mark.parametrize(
    "top", [record(field("who", "Person"), name="shop.Visit"), ["null", "shop.Person"]]
)
def test_types_of_references_are_known(top: Any) -> None:
    address = schema(record(field("city", "string"), name="shop.Address"))
    person = schema(record(field("at", "shop.Address"), name="shop.Person"))
    codec = AvroCodec(schema(top), [address, person])
    value: Any = {"at": {"city": "Ulm"}}
    value = {"who": value} if isinstance(top, dict) else value
    assert codec.decode(codec.encode(value)) == value


@pytest.mark.parametrize(
    "value",
    [
        {},
        {**VALUE, "extra": 1},
        {**VALUE, "id": "seven"},
        {**VALUE, "lines": [{"sku": 1}]},
        None,
        [1],
    ],
)
def test_values_that_do_not_fit_are_refused(value: Any) -> None:
    with pytest.raises(ValueMismatchError, match="does not fit the schema"):
        AvroCodec(schema(ORDER)).encode(value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no schema of Avro"),
        ('{"type": "record"}', "no schema of Avro"),
        ('{"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}', "the type B"),
        ("[" * 100_000, "no schema of Avro"),
        ("7", "no schema of Avro"),
    ],
)
def test_texts_that_are_no_schema_are_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        AvroCodec(Schema(text))


@pytest.mark.parametrize("is_careful", [False, True])
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error_of_the_body(is_careful: bool, body: bytes) -> None:
    codec = AvroCodec(schema(ORDER), is_careful=is_careful)
    try:
        value = codec.decode(body)
    except BodyError:
        return
    assert set(value) == set(VALUE)


def test_bytes_behind_the_value_are_an_error() -> None:
    codec = AvroCodec(schema(ORDER))
    with pytest.raises(BodyError, match="goes on for 2 bytes"):
        codec.decode(codec.encode(VALUE) + b"\0\0")


def test_a_value_as_deep_as_its_body_ends_in_an_error_and_not_the_process() -> None:
    codec = AvroCodec(schema(LIST))
    assert codec.decode(b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    with pytest.raises(BodyError, match="recursion"):
        codec.decode(b"\x02" * 1_000_000)


@pytest.mark.parametrize(
    "items",
    [
        "null",
        record(name="E"),
        record(field("a", "null"), name="E"),
        {"type": "fixed", "name": "F", "size": 0},
    ],
)
def test_arrays_of_items_without_bytes_are_refused(items: Any) -> None:
    with pytest.raises(SchemaError, match="take no bytes"):
        AvroCodec(schema({"type": "array", "items": items}))


def test_schemas_that_double_and_double_are_refused() -> None:
    kind: Any = record(field("a", "null"), field("b", "null"), name="R0")
    for i in range(1, 40):
        kind = record(field("a", kind), field("b", f"R{i - 1}"), name=f"R{i}")
    with pytest.raises(SchemaError, match=f"more than {FREE_VALUES_MAX} values"):
        AvroCodec(schema(kind))


@pytest.mark.parametrize("is_careful", [False, True])
def test_decimals_have_a_bound(is_careful: bool) -> None:
    kind = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    codec = AvroCodec(schema(kind), is_careful=is_careful)
    digits = AvroCodec(schema("bytes")).encode(b"\x7f" * DECIMAL_SIZE_MAX)
    assert codec.decode(digits) > 10**1000
    with pytest.raises(BodyError, match=f"up to {DECIMAL_SIZE_MAX}"):
        codec.decode(AvroCodec(schema("bytes")).encode(b"\x7f" * 1_000_000))
    assert codec.decode(codec.encode(Decimal("-12.5"))) == Decimal("-12.50")


def test_what_this_writes_others_read() -> None:
    codec = AvroCodec(schema(ORDER))
    stream = BytesIO(codec.encode(VALUE))
    assert fastavro.schemaless_reader(stream, fastavro.parse_schema(ORDER), None) == VALUE
