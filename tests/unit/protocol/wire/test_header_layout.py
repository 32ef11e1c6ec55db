from __future__ import annotations

import struct
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.requests.sending import SendMessageV2Request
from pocketmq.protocol.wire.codecs import binary
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import header_from_fields
from pocketmq.protocol.wire.header_layout import HeaderLayout, LaidOutFields

FIXED = ">h"


def form(**fields: str) -> tuple[bytes, dict[str, str], list[tuple[int, int]]]:
    """A header of the test's own: a number, then each name and value between marks."""
    data, spans = struct.pack(FIXED, 7), []
    for name, value in fields.items():
        data += f"{name}=".encode()
        spans.append((len(data), len(data) + len(value.encode())))
        data += value.encode() + b";"
    return data, fields, spans


def layout_of(*headers: dict[str, str]) -> HeaderLayout:
    layout: HeaderLayout | None = HeaderLayout(FIXED, *form(**headers[0]), ())
    for header in headers[1:]:
        assert layout is not None
        layout = layout.widened(FIXED, *form(**header))
    assert layout is not None
    return layout


def read(layout: HeaderLayout, header: dict[str, str]) -> LaidOutFields | None:
    parts = layout.unpack(form(**header)[0])
    if parts[1::2] != layout.constant:
        return None
    return LaidOutFields(layout, [value.decode() for value in parts[2::2]])


def test_only_what_has_differed_is_cut_out() -> None:
    layout = layout_of({"a": "x", "b": "1"}, {"a": "x", "b": "2"})
    assert layout.varying == ("b",)
    found = read(layout, {"a": "x", "b": "3"})
    assert found is not None
    assert list(found.fields().items()) == [("a", "x"), ("b", "3")]
    assert read(layout, {"a": "y", "b": "3"}) is None
    assert layout_of({"a": "x", "b": "1"}, {"a": "y", "b": "1"}, {"a": "y", "b": "2"}).varying == (
        *("a", "b"),
    )


def test_other_names_or_places_are_another_form() -> None:
    layout = layout_of({"a": "x", "b": "1"})
    assert layout.widened(FIXED, *form(a="x", c="1")) is None
    assert layout.widened(FIXED, *form(b="x", a="1")) is None
    layout = layout_of({"a": "xx", "b": "1"})
    assert layout.widened(FIXED, *form(a="x", b="11")) is None


SEND = {"a": "group", "b": "Topic", "e": "1", "g": "1700000000000", "i": "x"}


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        ("e", "7", "3"),
        ("e", "-7", "10"),
        ("e", "07", "10"),
        ("e", "1_1", "100"),
        ("e", " 1", "12"),
        ("e", "\u0663\u0664", "1234"),
        ("e", "x", "3"),
        ("j", "5", "6"),
        ("m", "true", "tru3"),
        ("m", "true", "null"),
        ("g", "1700000000001", "1700000000002"),
        ("g", "99999999999999999999", "99999999999999999998"),
        ("i", "KEYS\x01a\x02", "KEYS\x01b\x02"),
        ("own", "1", "2"),
    ],
)
def test_a_typed_header_is_the_one_that_its_fields_make(name: str, one: str, other: str) -> None:
    headers = [{**SEND, name: one}, {**SEND, name: other}]
    layout = layout_of(*headers)
    assert layout.varying == (name,)
    for header in headers * 2:
        value = header[name]
        assert outcome(partial(layout.read, SendMessageV2Request, [value])) == outcome(
            partial(header_from_fields, dict(header), SendMessageV2Request)
        )


def outcome(read: Callable[[], SendMessageV2Request]) -> SendMessageV2Request | str:
    try:
        return read()
    except ContentError as e:
        return str(e)


def test_headers_share_nothing() -> None:
    layout = layout_of(SEND, {**SEND, "e": "2"})
    first = layout.read(SendMessageV2Request, ["2"])
    first.topic = "changed"
    assert layout.read(SendMessageV2Request, ["3"]).topic == "Topic"
    assert first.queue_id == 2


@given(
    sends=st.lists(
        st.fixed_dictionaries(
            {
                "a": st.sampled_from(["p1", "p2"]),
                "b": st.sampled_from(["T1", "T2", "T\u00fc"]),
                "e": st.integers(-3, 12).map(str),
                "g": st.integers(10, 99).map(str),
                "i": st.text("ab\x01\x02", min_size=1, max_size=3),
            }
        ),
        max_size=12,
    )
)
def test_binary_headers_are_read_as_if_nothing_was_remembered(sends: list[dict[str, str]]) -> None:
    for send in sends:
        read = binary.decode(binary.encode(Command(310, opaque=5, extra=send)), b"body")
        assert read.fields == send
        assert read.read(SendMessageV2Request) == header_from_fields(send, SendMessageV2Request)
        assert (read.code, read.opaque, read.body) == (310, 5, b"body")
