from __future__ import annotations

import pytest

from pocketmq.protocol.filters import parse
from pocketmq.protocol.filters.conversions import Incomparable


def test_only_true_matches() -> None:
    expression = parse("a > 5")
    assert expression.matches({"a": "7"})
    assert not expression.matches({"a": "3"})
    assert not expression.matches({})
    assert not expression.matches({"a": "x"})


def test_evaluation_tells_false_from_null_from_failure() -> None:
    expression = parse("a > 5")
    assert expression.evaluate({"a": "7"}) is True
    assert expression.evaluate({"a": "3"}) is False
    assert expression.evaluate({}) is None
    with pytest.raises(Incomparable):
        expression.evaluate({"a": "x"})


def test_equal_conditions_are_equal() -> None:
    one, other = parse("a>5 and(b='x')"), parse("a > 5 AND b = 'x' like")
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == str(other) == "a > 5 AND b = 'x'"
    assert repr(one) == "Expression(\"a > 5 AND b = 'x'\")"


@pytest.mark.parametrize(
    ("one", "other"),
    [("a = 1", "a = 1.0"), ("a = 1", "a = '1'"), ("a = 1", "a = TRUE"), ("a = 1", "1 = a"),
     ("a = b", "a = c"), ("a", "NOT a"), ("a < 1", "a <= 1"), ("a IN ('x')", "a NOT IN ('x')"),
     ("NOT (a CONTAINS 'x')", "a NOT CONTAINS 'x'")],
)  # fmt: skip
def test_different_conditions_are_unequal(one: str, other: str) -> None:
    assert parse(one) != parse(other)
    assert parse(one) != one


def test_nodes_and_searches_are_counted() -> None:
    expression = parse("a = 1 AND (b CONTAINS 'x' OR c IN ('y', 'z'))")
    assert (expression.node_count, expression.text_search_count) == (9, 1)
