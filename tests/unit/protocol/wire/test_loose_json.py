from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.protocol.strategies import INT64

from pocketmq.protocol.bodies.topics import QueueKey
from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.wire import loose_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none() | st.booleans() | INT64 | TEXTS | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)
QUEUE_KEYS = st.builds(QueueKey, broker_name=TEXTS, queue_id=INT64, topic=TEXTS)


class Table(msgspec.Struct, rename="camel", kw_only=True):
    addresses_by_id: dict[int, str] = {}
    offset_table: dict[str, int] = {}
    name: str | None = None
    is_on: bool = False
    sizes: list[int] = []


class Offsets(msgspec.Struct, rename="camel", kw_only=True):
    offset_table: dict[QueueKey, int]


def test_writes_as_fastjson_does() -> None:
    table = Table(addresses_by_id={10: "c", 2: "b", 0: "a"}, is_on=True, sizes=[3, 1])
    assert loose_json.encode(table) == (
        b'{"addressesById":{0:"a",2:"b",10:"c"},"isOn":true,"offsetTable":{},"sizes":[3,1]}'
    )
    assert loose_json.encode(table, quote_keys=True) == (
        b'{"addressesById":{"0":"a","2":"b","10":"c"},"isOn":true,"offsetTable":{},"sizes":[3,1]}'
    )


def test_writes_whole_objects_as_keys() -> None:
    key = QueueKey(broker_name="b", queue_id=0, topic="T")
    assert loose_json.encode(Offsets(offset_table={key: 5})) == (
        b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    )


@given(VALUES)
def test_writes_standard_json_where_keys_are_text(value: Any) -> None:
    assert json.loads(loose_json.encode(value)) == _without_nulls(value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value


@given(VALUES, st.sampled_from([None, 1, 3]), st.booleans())
def test_standard_agrees_with_json(value: Any, indent: int | None, ascii_: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_).encode()
    assert json.loads(loose_json.standard(text)) == value


@given(st.dictionaries(INT64, VALUES, max_size=4))
def test_number_keys_become_text(value: dict[int, Any]) -> None:
    read = json.loads(loose_json.standard(loose_json.encode(value)))
    assert read == {str(k): _without_nulls(v) for k, v in value.items() if v is not None}


@given(st.dictionaries(QUEUE_KEYS, INT64, max_size=4))
def test_object_keys_become_the_text_of_their_json(value: dict[QueueKey, int]) -> None:
    read = json.loads(loose_json.standard(loose_json.encode(value)))
    assert {loose_json.decode(k.encode(), QueueKey): v for k, v in read.items()} == value


@pytest.mark.parametrize(
    "text",
    [
        b'{"addressesById":{0:"a",1:"b"},"offsetTable":{{"t":"T"}:5},"isOn":true,"sizes":[1,2]}',
        b'{"addressesById":{"0":"a","1":"b"},"offsetTable":{"{\\"t\\":\\"T\\"}":"5"},'
        b'"isOn":"true","sizes":["1",2]}',
        b' { "addressesById" : { 0 : "a" , 1:"b"}, "offsetTable":{ {"t" : "T"}: 5},\n'
        b'"name":null, "unknown":{1:[{}]}, "isOn":true,"sizes":[1,2],"extra":null}\r\n',
    ],
)
def test_reads_all_dialects(text: bytes) -> None:
    assert loose_json.decode(text, Table) == Table(
        addresses_by_id={0: "a", 1: "b"},
        offset_table={'{"t":"T"}': 5},
        is_on=True,
        sizes=[1, 2],
    )


def test_a_null_is_an_absent_field() -> None:
    """Clients that are not written in Java send nulls for empty lists."""
    assert loose_json.decode(b'{"sizes":null,"isOn":null,"addressesById":{}}', Table) == Table()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"{",
        b"}",
        b"{}}",
        b"{} {}",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b'{"a"}',
        b'{"a":}',
        b'{"a":1,}',
        b"{:1}",
        b'{"a',
        b'{"a\\":1}',
        b'{{"a":1}:',
        b"[" * 100_000,
        b"[" * 66 + b"]" * 66,
    ],
)
def test_standard_refuses_what_is_no_json(text: bytes) -> None:
    with pytest.raises(ContentError, match="JSON body: "):
        loose_json.standard(text)
    with pytest.raises(ContentError):
        loose_json.decode(text, Table)


@pytest.mark.parametrize(
    "text",
    [
        b"[]",
        b"7",
        b"nonsense",
        b'{"isOn":maybe}',
        b'{"sizes":["one"]}',
        b'{"name":"\xff"}',
        b'{\xff:"a"}',
        b'{"addressesById":{zero:"a"}}',
        b'{"unknown":%b}' % (b"[" * 1_000_000 + b"]" * 1_000_000),
    ],
)
def test_decode_refuses_what_does_not_fit(text: bytes) -> None:
    with pytest.raises(ContentError):
        loose_json.decode(text, Table)


@given(
    st.binary(max_size=60)
    | st.text(st.sampled_from('{}[]:,"\\ 01ae\n'), max_size=60).map(str.encode)
)
def test_garbage_is_read_or_refused(garbage: bytes) -> None:
    for read in (loose_json.standard, lambda data: loose_json.decode(data, Table)):
        with contextlib.suppress(ContentError):
            read(garbage)


class Nested(msgspec.Struct, rename="camel", kw_only=True):
    tables: Table | None = None
    many: dict[str, Any] = {}
    other: list[int] | None = None


@given(st.builds(Nested, many=st.dictionaries(TEXTS, VALUES), tables=st.none() | st.just(Table())))
def test_pieces_are_the_same_text(value: Nested) -> None:
    assert b"".join(loose_json.pieces(value)) == loose_json.encode(value)
    assert [*loose_json.pieces(QueueKey(broker_name="b", queue_id=1, topic="t"))]
