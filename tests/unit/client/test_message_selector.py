"""What a consumer asks for, and what brokers are told of it."""

from __future__ import annotations

import pytest

from pocketmq.client import FilterSyntaxError, MessageSelector
from pocketmq.client.message_selector import subscription_of
from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.errors import UsageError


def test_strings_are_tags() -> None:
    by_string = subscription_of("T", "A || B", 7)
    assert by_string == subscription_of("T", MessageSelector.by_tag("A || B"), 7)
    assert (by_string.expression_type, by_string.tags_set) == ("TAG", ["A", "B"])
    assert subscription_of("T", MessageSelector(), 7).takes_all
    assert subscription_of("T", None, 7).takes_all


def test_other_things_are_no_expressions() -> None:
    with pytest.raises(UsageError, match="5 is neither a string of tags nor a MessageSelector"):
        subscription_of("T", 5, 7)  # type: ignore[arg-type]


def test_sql_goes_to_the_broker_as_it_is() -> None:
    assert subscription_of("T", MessageSelector.by_sql(" a > 5 "), 7) == Subscription(
        topic="T", sub_string=" a > 5 ", sub_version=7, expression_type="SQL92"
    )


@pytest.mark.parametrize(("text", "position"), [("", 0), ("a >", 3), ("a > 5 b", 6), ("a * 2", 2)])
def test_what_is_no_sql_is_told_at_once(text: str, position: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        MessageSelector.by_sql(text)
    assert caught.value.position == position
    with pytest.raises(FilterSyntaxError):
        MessageSelector(text, "SQL92")


def test_there_are_two_types() -> None:
    with pytest.raises(UsageError, match="'JMS'"):
        MessageSelector("a", "JMS")
