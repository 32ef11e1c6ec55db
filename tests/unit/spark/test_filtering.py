"""Expressions are what brokers understand, and a condition is not taken for a tag."""

from __future__ import annotations

import pytest

from pocketmq.spark.errors import OptionError
from pocketmq.spark.filtering import SQL92, TAG, Expression, of_tags, read_expression


@pytest.mark.parametrize("text", ["", "*", " * "])
def test_everything(text: str) -> None:
    assert read_expression(text, "tag").takes_all
    assert read_expression(text, "tag").tags is None


def test_tags() -> None:
    expression = read_expression(" new ||paid", TAG)
    assert expression == Expression("new||paid", TAG)
    assert expression.tags == frozenset({"new", "paid"})
    assert not expression.takes_all


def test_conditions() -> None:
    assert read_expression("a > 1 ", "sql92") == Expression("a > 1", SQL92)
    assert read_expression("a > 1", SQL92).tags is None


@pytest.mark.parametrize("text", ["a > 1", "new paid", "a ||", "a='b'"])
def test_what_is_no_tag(text: str) -> None:
    with pytest.raises(OptionError, match="set expressionType=SQL92"):
        read_expression(text, TAG)


def test_unknown_kinds() -> None:
    with pytest.raises(OptionError, match="it is TAG or SQL92"):
        read_expression("a", "SQL")


def test_tags_as_an_expression() -> None:
    assert of_tags(frozenset({"b", "a"})) == Expression("a||b")
    for strange in ("", " a", "a|b", "*"):
        assert of_tags(frozenset({strange, "a"})) is None
    assert of_tags(frozenset()) is None


@pytest.mark.parametrize("text", ["price >", "price > 5 and", "a like 'x'"])
def test_what_is_no_condition_is_refused_before_a_broker_ignores_it(text: str) -> None:
    with pytest.raises(OptionError, match="option 'filter' is no SQL92 condition"):
        read_expression(text, SQL92)
