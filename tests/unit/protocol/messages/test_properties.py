from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.protocol.strategies import PROPERTIES

from pocketmq.protocol.errors import MessageSizeError, UsageError
from pocketmq.protocol.messages import properties as props


@given(PROPERTIES)
def test_round_trip(properties: dict[str, str]) -> None:
    text = props.encode(properties)
    assert props.decode(text) == properties
    assert props.decode(text.removesuffix(props.VALUE_END)) == properties
    assert {name: props.value_of(text, name) for name in properties} == properties


def test_the_string_of_the_real_client() -> None:
    assert props.encode({"TAGS": "TagA", "KEYS": "k1"}) == "TAGS\x01TagA\x02KEYS\x01k1\x02"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("\x02\x02", {}),
        ("a", {}),
        ("a\x01", {}),
        ("a\x01\x02b\x01B\x02", {"b": "B"}),
        ("\x01a\x02b\x01B", {"b": "B"}),
        ("a\x01A\x01x\x02", {"a": "A\x01x"}),
        ("a\x011\x02a\x012\x02", {"a": "2"}),
    ],
)
def test_reads_what_the_real_reader_reads(text: str, expected: dict[str, str]) -> None:
    assert props.decode(text) == expected


def test_value_of_finds_whole_names_only() -> None:
    text = "xKEYS\x01no\x02KEYS\x01k\x02"
    assert props.value_of(text, "KEYS") == "k"
    assert props.value_of(text, "xKEYS") == "no"
    assert props.value_of(text, "YS") is None
    assert props.value_of(text, "k") is None
    assert props.value_of("KEYS\x01\x02", "KEYS") is None
    assert props.value_of("", "KEYS") is None


@pytest.mark.parametrize("properties", [{"a\x01": "b"}, {"a": "b\x02"}])
def test_separators_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"0x01 or 0x02.*encode the value"):
        props.encode(properties)


@pytest.mark.parametrize("wrong", [{"n": 1}, {1: "n"}, {"n": None}, {"n": ["v"]}, {"n": b"v"}])
def test_only_strings_are_taken(wrong: Any) -> None:
    with pytest.raises(UsageError, match="are strings, convert these: ") as caught:
        props.encode({"TAGS": "A", **wrong})
    assert repr(wrong) in str(caught.value)


def test_half_a_character_is_refused() -> None:
    with pytest.raises(UsageError, match="no Unicode text"):
        props.encode_checked({"n": "\ud800"})


def test_size_limit_counts_bytes() -> None:
    fits = {"n": "é" * ((props.PROPERTIES_SIZE_MAX - 3) // 2)}
    assert len(props.encode_checked(fits)) == props.PROPERTIES_SIZE_MAX
    with pytest.raises(MessageSizeError, match="properties has 32769 bytes, the limit is 32767"):
        props.encode_checked({"n": fits["n"] + "é"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("TagA", 2598919),
        ("TagB", 2598920),
        ("polygenelubricants", -(1 << 31)),
        ("é", 233),
        ("😀", 0xD83D * 31 + 0xDE00),
        ("\ud800", 0xD800),
    ],
)
def test_java_hash(text: str, expected: int) -> None:
    assert props.java_hash(text) == expected


def test_tags_code() -> None:
    assert (props.tags_code("TagA"), props.tags_code(""), props.tags_code(None)) == (2598919, 0, 0)
