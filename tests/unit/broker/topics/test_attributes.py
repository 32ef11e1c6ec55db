from __future__ import annotations

import pytest

from pocketmq.broker.topics.attributes import (
    GROUP_ATTRIBUTES,
    TOPIC_ATTRIBUTES,
    Attribute,
    changed_attributes,
    parse_attributes,
)
from pocketmq.protocol.errors import ResponseError

ANY = dict.fromkeys("abcd", Attribute())


def test_attributes_are_set_and_removed() -> None:
    given = parse_attributes("+a=1, -b,,+c=x=y")
    assert given == {"+a": "1", "-b": "", "+c": "x=y"}
    assert changed_attributes(ANY, {"a": "0", "b": "2", "d": "4"}, given) == {
        "a": "1", "c": "x=y", "d": "4",
    }  # fmt: skip
    assert changed_attributes(ANY, {"a": "0"}, {"b": "1"}) == {"a": "0", "b": "1"}, "plain: set"
    assert parse_attributes(None) == parse_attributes("") == {}


@pytest.mark.parametrize("text", ["a=1", "+a", "-a=1", "+", "-", "+=1", "a"])
def test_nonsense(text: str) -> None:
    with pytest.raises(ResponseError) as caught:
        parse_attributes(text)
    assert caught.value.code == 29
    assert text in str(caught.value)
    with pytest.raises(ResponseError):
        changed_attributes(ANY, {}, {"+": "1"})


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("queue.type", "SimpleCQ", "Simple"),
        ("message.type", "FIFO", "fifo"),
        ("reserve.time", "-1", "-2"),
        ("reserve.time", "9223372036854775807", "9223372036854775808"),
        ("reserve.time", "0", "soon"),
        ("reserve.time", "7", ""),
        ("pocketmq.retention.bytes", "-1", "10 GiB"),
        ("pocketmq.retention.bytes", "1073741824", "1.5"),
    ],
)
def test_values_have_a_form(name: str, good: str, bad: str) -> None:
    assert changed_attributes(TOPIC_ATTRIBUTES, None, {f"+{name}": good}) == {name: good}
    with pytest.raises(ResponseError, match="value is not in") as caught:
        changed_attributes(TOPIC_ATTRIBUTES, None, {f"+{name}": bad})
    assert caught.value.code == 1


def test_a_refusal_says_what_the_number_means() -> None:
    with pytest.raises(ResponseError, match=r"retention\.bytes is 1G: bytes on each broker"):
        changed_attributes(TOPIC_ATTRIBUTES, None, {"+pocketmq.retention.bytes": "1G"})


def test_what_there_is_no_attribute_of() -> None:
    for known in (None, {}, {"priority.factor": "1"}):
        with pytest.raises(ResponseError, match="unsupported key: nonsense"):
            changed_attributes(GROUP_ATTRIBUTES, known, {"+nonsense": "1"})
    with pytest.raises(ResponseError, match=r"delete a nonexistent key: priority\.factor"):
        changed_attributes(GROUP_ATTRIBUTES, {}, {"-priority.factor": ""})


def test_some_are_chosen_once() -> None:
    known = changed_attributes(TOPIC_ATTRIBUTES, None, {"+queue.type": "SimpleCQ"})
    assert changed_attributes(TOPIC_ATTRIBUTES, known, {"+queue.type": "SimpleCQ"}) == known
    for change in ({"+queue.type": "BatchCQ"}, {"-queue.type": ""}):
        with pytest.raises(ResponseError, match="unchangeable"):
            changed_attributes(TOPIC_ATTRIBUTES, known, change)


def test_what_an_older_store_held_can_be_sent_back() -> None:
    assert changed_attributes(TOPIC_ATTRIBUTES, {"a": "1"}, {"a": "1"}) == {"a": "1"}
