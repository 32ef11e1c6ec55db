"""Which properties make a message special: the quick look misses none of them."""

from __future__ import annotations

import pytest

from pocketmq.broker.handlers.sending.special_properties import (
    BROKER_PROPERTIES,
    delay_property,
    holds_special,
    is_special,
)
from pocketmq.protocol.messages import properties as props

LATER = (props.DELAY, props.TRANSACTION_PREPARED, *props.TIMER_PROPERTIES)


@pytest.mark.parametrize("name", [*LATER, *BROKER_PROPERTIES])
def test_each_of_them_is_seen(name: str) -> None:
    assert is_special(props.encode({"a": "b", name: "1", "c": "d"}))


@pytest.mark.parametrize("name", LATER)
def test_each_that_a_batch_cannot_have_is_seen_in_all_of_it(name: str) -> None:
    assert holds_special(b"a\x01b\x02" + props.encode({name: "1"}).encode() + b"c\x01d\x02")


def test_ordinary_messages_are_not_special() -> None:
    text = props.encode({props.UNIQ_KEY: "1", props.WAIT: "true", props.TAGS: "x", "KEYS": "k"})
    assert not is_special(text)
    assert not holds_special(text.encode())


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, None),
        ({"DELAY": "0"}, None),
        ({"DELAY": "3", "TIMER_DELAY_MS": "5"}, "DELAY"),
        ({"TIMER_DELAY_MS": "5"}, "TIMER_DELAY_MS"),
        ({"TIMER_DELAY_SEC": "0", "TIMER_DELIVER_MS": "false"}, None),
    ],
)
def test_some_values_ask_for_no_delay(given: dict[str, str], found: str | None) -> None:
    assert delay_property(props.encode(given)) == found
