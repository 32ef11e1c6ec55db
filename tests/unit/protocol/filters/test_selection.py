from __future__ import annotations

import pytest

from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters import (
    TEXT_LENGTH_MAX,
    FilterSyntaxError,
    compile_filter,
    parse,
)
from pocketmq.protocol.filters.selection import TAGS_LENGTH_MAX
from pocketmq.protocol.messages.properties import java_hash


@pytest.mark.parametrize("expression_type", [None, "", "TAG"])
def test_tags(expression_type: str | None) -> None:
    assert compile_filter(expression_type, "*") is None
    assert compile_filter(expression_type, "") is None
    codes = frozenset({java_hash("A"), java_hash("B b")})
    assert compile_filter(expression_type, " A || B b||") == codes


def test_long_tags_are_used_and_not_kept() -> None:
    tag = "A" * (TEXT_LENGTH_MAX + 1)
    assert compile_filter("TAG", tag) == {java_hash(tag)}
    assert compile_filter("TAG", tag) is not compile_filter("TAG", tag)


def test_tags_without_end_are_refused() -> None:
    with pytest.raises(FilterSyntaxError, match="fewer tags"):
        compile_filter("TAG", "A" * (TAGS_LENGTH_MAX + 1))


def test_sql92() -> None:
    assert compile_filter("SQL92", "a > 5") == parse("a > 5")
    assert compile_filter("SQL92", "a > 5") is compile_filter("SQL92", "a > 5")


def test_is_strict_unless_told() -> None:
    assert compile_filter("SQL92", "a like 'x'", strict=False) == parse("a")
    with pytest.raises(FilterSyntaxError):
        compile_filter("SQL92", "a like 'x'")


@pytest.mark.parametrize("text", ["", "*", "A || B"])
def test_sql92_takes_no_tags(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        compile_filter("SQL92", text)


def test_unknown_types_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'CLASS'.*TAG or SQL92"):
        compile_filter("CLASS", "x")
