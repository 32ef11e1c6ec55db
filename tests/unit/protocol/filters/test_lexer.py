from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.filters import FilterSyntaxError
from pocketmq.protocol.filters.lexer import DOUBLE, END, INTEGER, NAME, STRING, Lexer, Token


def tokens(text: str) -> list[Token]:
    lexer, found = Lexer(text), []
    while (token := lexer.next()).kind != END:
        found.append(token)
    assert lexer.next() == Token(END, "", len(text))
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a$_9 $ _", [(NAME, "a$_9"), (NAME, "$"), (NAME, "_")]),
        ("nOt NOTa", [("NOT", "nOt"), (NAME, "NOTa")]),
        ("'a''b' 'c'", [(STRING, "'a''b'"), (STRING, "'c'")]),
        ("12L 12lL", [(INTEGER, "12L"), (INTEGER, "12l"), (NAME, "L")]),
        ("07 0L", [(INTEGER, "0"), (INTEGER, "7"), (INTEGER, "0"), (NAME, "L")]),
        ("1. .5 1.5E+3 2e-7", [(DOUBLE, t) for t in ("1.", ".5", "1.5E+3", "2e-7")]),
        ("07.5 1e", [(DOUBLE, "07.5"), (INTEGER, "1"), (NAME, "e")]),
        ("1.5e", [(DOUBLE, "1.5"), (NAME, "e")]),
        ("1..2", [(DOUBLE, "1."), (DOUBLE, ".2")]),
        ("<><=>=<>", [("<>", "<>"), ("<=", "<="), (">=", ">="), ("<>", "<>")]),
        ("a/* * / */b/***/c", [(NAME, "a"), (NAME, "b"), (NAME, "c")]),
        ("a--b\nc--d\re--f\r\ng", [(NAME, "a"), (NAME, "c"), (NAME, "e"), (NAME, "g")]),
        ("--5", [("-", "-"), ("-", "-"), (INTEGER, "5")]),
        (" \t\n\r\fa", [(NAME, "a")]),
        ("", []),
    ],
)  # fmt: skip
def test_reads_tokens(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(token.kind, token.text) for token in tokens(text)] == expected
    assert all(text.startswith(token.text, token.position) for token in tokens(text))


@pytest.mark.parametrize("text", ["!", "/* a", "'a", "a 'b''", "\v", "\u00a0", "ſ", "a.b.c"])
def test_refuses_other_characters(text: str) -> None:
    with pytest.raises(FilterSyntaxError):
        tokens(text)


def test_does_not_read_ahead() -> None:
    assert Lexer("a !").next() == Token(NAME, "a", 0)


@given(st.text(alphabet="aE5.'-+*/<>=( \n!ü", max_size=30))
def test_reads_or_refuses(text: str) -> None:
    try:
        found = tokens(text)
    except FilterSyntaxError as error:
        assert 0 <= error.position < len(text)  # noqa: PT017
    else:
        assert all(a.position + len(a.text) <= b.position for a, b in pairwise(found))
