"""How properties and bodies are typed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.console.pages.typed import Typed
from pocketmq.console.pages.writing.send_form import content_of, properties_of, properties_text
from pocketmq.protocol.errors import UsageError

NAMES = st.text(min_size=1).filter(str.strip)


@given(st.dictionaries(NAMES, st.text()))
def test_properties_are_read_as_they_were_written(properties: dict[str, str]) -> None:
    assert properties_of(properties_text(properties)) == properties


def test_properties_are_lines_where_they_can_be() -> None:
    assert properties_text({"a": "1", "b": "x=y"}) == "a=1\nb=x=y"
    assert properties_text({"a": "1\n2"}) == '{"a":"1\\n2"}'


@pytest.mark.parametrize("text", ["colour", "=red", "{", '{"a": 1}', "[1]"])
def test_properties_that_are_none(text: str) -> None:
    with pytest.raises(UsageError):
        properties_of(text)


@pytest.mark.parametrize(
    ("encoding", "body", "content"),
    [
        ("text", "a\r\nb", b"a\nb"),
        ("hex", "ff 00\r\n01", b"\xff\x00\x01"),
        ("base64", "/w\r\nA=", b"\xff\x00"),
    ],
)
def test_a_body_as_it_was_typed(encoding: str, body: str, content: bytes) -> None:
    assert content_of(Typed({"body": body, "encoding": encoding})) == content


@pytest.mark.parametrize(("encoding", "body"), [("hex", "f"), ("base64", "ä"), ("utf-16", "x")])
def test_a_body_that_is_none(encoding: str, body: str) -> None:
    with pytest.raises(UsageError):
        content_of(Typed({"body": body, "encoding": encoding}))
