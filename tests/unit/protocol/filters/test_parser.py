from __future__ import annotations

import pytest

from pocketmq.protocol.filters import (
    DEPTH_MAX,
    IN_VALUES_MAX,
    TEXT_LENGTH_MAX,
    Expression,
    FilterSyntaxError,
    parse,
)
from pocketmq.protocol.filters.parser import TEXT_SEARCHES_MAX


def refusal(text: str, *, strict: bool = False) -> FilterSyntaxError:
    with pytest.raises(FilterSyntaxError) as caught:
        parse(text, strict=strict)
    return caught.value


@pytest.mark.parametrize(
    ("text", "position", "expected", "remedy"),
    [
        ("", 0, "a property, a value or (", "value on both sides"),
        ("a = ", 4, "a property, a value or (", "value on both sides"),
        ("a == 5", 3, "a property, a value or (", "= is equality"),
        ("a != 5", 2, "an operator", "<>"),
        ('a = "x"', 4, "an operator, a name or a value", "names of properties bare"),
        ("a = 'x", 4, "an operator, a name or a value", "close the string"),
        ("a && b", 2, "an operator", "AND"),
        ("a > 5 /* c", 6, "an operator", "close the comment"),
        ("a*2 > 1", 1, "an operator", "no arithmetic"),
        ("ä = 5", 0, "an operator, a name", "letters"),
        ("a OR 5", 5, "a condition", "compare it"),
        ("NOT -a", 4, "a condition", "compare it"),
        ("b = 1 AND (-a)", 10, "a condition", "compare it"),
        ("a > 'x'", 4, "a number or a property", "no order"),
        ("NOT a > 1", 0, "a number or a property", "NOT before parentheses"),
        ("a <> NULL", 5, "a value other than NULL", "IS NOT NULL"),
        ("TRUE = 5", 7, "TRUE or FALSE", "property"),
        ("a BETWEEN 5 AND 1", 10, "a low bound up to the high one", "swap"),
        ("a BETWEEN 5 OR 1", 12, "AND", "BETWEEN low AND high"),
        ("a IN (5)", 6, "a string", "only strings"),
        ("a IN 'x'", 5, "(", "parentheses"),
        ("a IN ('x' 'y')", 10, ")", "commas"),
        ("NOT a IN ('x')", 0, "a property before IN", "a NOT IN"),
        ("a CONTAINS b", 11, "a string", "only strings"),
        ("a NOT = 5", 6, "BETWEEN, IN, CONTAINS", "NOT (a = 1)"),
        ("a IS 5", 5, "NULL", "IS NOT NULL"),
        ("(a = 5", 6, ")", "close the parenthesis"),
        ("a = 9223372036854775808", 4, "an integer up to 9223372036854775807", "1e20"),
        ("a > 0.0", 4, "a decimal from", "write zero as 0"),
    ],
)
def test_says_where_and_what_instead(text: str, position: int, expected: str, remedy: str) -> None:
    error = refusal(text)
    assert (error.text, error.position) == (text, position)
    assert expected in error.expected
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("text", "position"),
    [("a like '1'", 2), ("a + 1 > 2", 2), ("a = 5 b = 6", 6), ("a = 07", 5), ("a = 0)", 5),
     ("a = 5 - 1", 6), ("a = 5 - - 1", 6)],
)  # fmt: skip
def test_strict_refuses_what_follows(text: str, position: int) -> None:
    assert parse(text).matches({}) is False
    error = refusal(text, strict=True)
    assert (error.position, error.expected) == (position, "the end of the expression")
    assert "RocketMQ would ignore" in error.remedy


@pytest.mark.parametrize("text", ["a = 5", "a = 5 ", "a = 5 -- c", "a = 5 -- c\n", "a = 5/* c */"])
def test_strict_takes_spaces_and_comments_at_the_end(text: str) -> None:
    assert parse(text, strict=True) == parse("a = 5")


def test_length_is_bounded() -> None:
    text = "a='" + "x" * (TEXT_LENGTH_MAX - 4) + "'"
    assert isinstance(parse(text), Expression)
    error = refusal(text + " ")
    assert error.position == TEXT_LENGTH_MAX
    assert str(TEXT_LENGTH_MAX) in error.expected


def test_lists_are_bounded() -> None:
    values = ["''"] * IN_VALUES_MAX
    assert parse(f"a IN ({','.join(values)})").matches({"a": ""})
    assert str(IN_VALUES_MAX) in refusal(f"a IN ({','.join([*values, values[0]])})").expected


@pytest.mark.parametrize(
    ("opening", "inner", "closing"),
    [
        ("(", "a", ")"),
        ("NOT ", "a", ""),
        ("+", "a = 1", ""),
        ("- ", "a = 1", ""),
        ("NOT (a = 1 AND ", "b = 1", ")"),
        ("", "a", " IS NULL"),
        ("", "a", " IS NOT NULL"),
        ("", "a", " = b"),
        ("a = (", "b", ")"),
        ("", "a", " CONTAINS 'x'"),
        ("-(", "a IS NULL", ") BETWEEN 1 AND 2"),
        ("a = 1 AND (b = 1 OR ", "c", ")"),
    ],
)
def test_nesting_is_bounded(opening: str, inner: str, closing: str) -> None:
    def nested(count: int) -> str:
        return opening * count + inner + closing * count

    deepest = None
    for count in range(1, DEPTH_MAX + 2):
        try:
            deepest = parse(nested(count))
        except FilterSyntaxError as error:
            assert "levels of nesting" in error.expected  # noqa: PT017
            break
    else:
        pytest.fail("the depth has no bound")
    assert count > DEPTH_MAX // 3
    assert deepest is not None
    assert parse(str(deepest)) == deepest
    assert hash(parse(str(deepest))) == hash(deepest)
    deepest.matches({"a": "1"})
    assert "levels of nesting" in refusal(nested(500)).expected


def test_chains_are_not_nesting() -> None:
    text = " OR ".join(f"a = {i}" for i in range(1_000))
    assert parse(text).matches({"a": "999"})
    assert str(parse(text)) == text
    assert not parse(text.replace("OR", "AND")).matches({"a": "999"})


def test_searches_for_texts_are_bounded() -> None:
    def searching(count: int) -> str:
        return " OR ".join(["a CONTAINS 'x'", "a NOT STARTSWITH 'x'"] * (count // 2))

    assert parse(searching(TEXT_SEARCHES_MAX)).text_search_count == TEXT_SEARCHES_MAX
    assert "ENDSWITH" in refusal(searching(TEXT_SEARCHES_MAX + 2)).expected
