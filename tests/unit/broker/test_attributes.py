from __future__ import annotations

import pytest

from pocketmq.broker.attributes import changed_attributes, parse_attributes
from pocketmq.protocol.errors import ResponseError


def test_attributes_are_set_and_removed() -> None:
    given = parse_attributes("+a=1, -b,,+c=x=y")
    assert given == {"+a": "1", "-b": "", "+c": "x=y"}
    assert changed_attributes({"a": "0", "b": "2", "d": "4"}, given) == {
        "a": "1", "c": "x=y", "d": "4",
    }  # fmt: skip
    assert changed_attributes({"a": "0"}, {"b": "1"}) == {"a": "0", "b": "1"}, "plain names set"
    assert parse_attributes(None) == parse_attributes("") == {}


@pytest.mark.parametrize("text", ["a=1", "+a", "-a=1", "+", "-", "+=1", "a"])
def test_nonsense(text: str) -> None:
    with pytest.raises(ResponseError) as caught:
        parse_attributes(text)
    assert caught.value.code == 29
    assert text in str(caught.value)
    with pytest.raises(ResponseError):
        changed_attributes({}, {"+": "1"})
