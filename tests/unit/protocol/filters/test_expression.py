from __future__ import annotations

import pytest

from pocketmq.protocol.filters import FilterSyntaxError, parse
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


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("body.amount > 12", True),  # by RocketMQ's rule for properties 12.5 is no integer
        ("12 < body.amount", True),
        ("body.amount BETWEEN 12 AND 13", True),
        ("body.amount IN ('12.5')", True),
        ("body.amount = 12.5 AND body.count = 3", True),
        ("body.count = 3.0 AND 3.0 = body.count", True),
        ("body.id = 9007199254740993", True),
        ("body.id = 9007199254740992", False),
        ("body.amount > body.count AND body.count < limit", True),
        ("body.paid = TRUE", True),
        ("body.items.0.\"unit price\" <> '7'", True),
        ("body.nothing IS NULL AND body.amount IS NOT NULL", True),
        ("body.name > 5 OR body.count = 3", False),  # as with properties: no number
        ("body.name = limit", False),
        ("-body.amount IS NULL", True),
    ],
)
def test_members_of_bodies_compare_by_value(text: str, passes: bool) -> None:
    given = {
        "body.amount": "12.5", "body.count": "3", "body.id": "9007199254740993",
        "body.paid": "true", 'body.items.0."unit price"': "8", "body.name": "x", "limit": "4",
    }  # fmt: skip
    parsed = parse(text, strict=True, members=True)
    assert parsed.matches(given) is passes
    assert parse(str(parsed), strict=True, members=True) == parsed


def test_brokers_know_no_members() -> None:
    with pytest.raises(FilterSyntaxError, match="names of properties have letters"):
        parse("body.a = 1", strict=True)
    assert parse("a > 1 AND body.b.c = d", members=True).names == {"a", "body.b.c", "d"}
