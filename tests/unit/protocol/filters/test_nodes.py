from __future__ import annotations

import pytest

from pocketmq.protocol.filters import parse


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=5", "a = 5"),
        ("a = 5L", "a = 5"),
        ("a < 1e5", "a < 100000.0"),
        ("(a) = (+5)", "a = 5"),
        ("a = - -5", "a = - -5"),
        ("NOT (a = 1)", "a <> 1"),
        ("NOT(a is null)", "a IS NOT NULL"),
        ("NOT (a in('x','it''s'))", "a NOT IN ('x', 'it''s')"),
        ("NOT (a BETWEEN 1 AND 5)", "a NOT BETWEEN 1 AND 5"),
        ("a NOT BETWEEN 5 AND 1", "a NOT BETWEEN 5 AND 1"),
        ("NOT (a CONTAINS 'x')", "NOT (a CONTAINS 'x')"),
        ("a not contains 'x'", "a NOT CONTAINS 'x'"),
        ("NOT (NOT (a = 1))", "NOT (a <> 1)"),
        ("NOT NOT a", "NOT NOT a"),
        ("-(a = 1) IS NULL", "-(a = 1) IS NULL"),
        ("-(-a) IS NULL", "- -a IS NULL"),
        ("a = 1 AND (b = 2 AND c = 3)", "a = 1 AND b = 2 AND c = 3"),
        ("a = 1 OR (b = 2 OR c = 3)", "a = 1 OR b = 2 OR c = 3"),
        ("(a OR b) AND c", "(a OR b) AND c"),
        ("(a AND b) OR c", "a AND b OR c"),
        ("a = (b = c)", "a = (b = c)"),
        ("(a = b) = c", "a = b = c"),
        ("(a = 'x') CONTAINS 'y'", "(a = 'x') CONTAINS 'y'"),
        ("a CONTAINS 'x' CONTAINS 'y'", "a CONTAINS 'x' CONTAINS 'y'"),
        ("a = b CONTAINS 'x'", "a = b CONTAINS 'x'"),
        ("NULL or true", "NULL OR TRUE"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    expression = parse(text)
    assert str(expression) == canonical
    assert parse(canonical) == expression
