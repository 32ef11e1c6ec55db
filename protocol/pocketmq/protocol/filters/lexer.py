"""Cuts filter text into tokens, one at a time (`SelectorParser.jj`, the token section)."""

from __future__ import annotations

import re
from typing import NamedTuple

from pocketmq.protocol.filters.errors import FilterSyntaxError

TEXT_LENGTH_MAX = 16_384
"""Characters of an expression, enough for a thousand values; each message pays for them."""

NAME, STRING, INTEGER, DOUBLE, END = "a property", "a string", "an integer", "a decimal", "the end"
"""Kinds of tokens; a keyword (in capitals) or an operator is its own kind."""

KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS",
     "CONTAINS", "STARTSWITH", "ENDSWITH")
)  # fmt: skip

# The longest match wins, as in RocketMQ: decimals stand before integers and >= before >. Three
# oddities follow from its rules: a line comment needs the end of its line (without one, -- is two
# minus signs), 0L is 0 followed by the property L, and 07 is 0 followed by 7.
_SKIPPED = re.compile(r"(?:[ \t\n\r\f]+|--[^\n\r]*(?:\r\n|\n|\r)|/\*[^*]*\*(?:\*|[^*/][^*]*\*)*/)*")
_NAME = r"[A-Za-z_$][A-Za-z0-9_$]*"
_OTHERS = (
    r"|(?P<string>'(?:''|[^'])*')"
    r"|(?P<double>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<integer>0|[1-9][0-9]*[lL]?)"
    r"|(?P<operator><>|>=|<=|[=><(),+-])"
)
_TOKEN = re.compile(f"(?P<name>{_NAME}){_OTHERS}")
_MEMBER = r"\.(?:[A-Za-z0-9_$]+|\"[^\"]+\")"
_TOKEN_WITH_MEMBERS = re.compile(f"(?P<name>{_NAME}(?:{_MEMBER})*){_OTHERS}")
_LITERALS = {"string": STRING, "double": DOUBLE, "integer": INTEGER}

_REMEDIES = {
    "'": "close the string with ' and write a ' inside it as ''",
    '"': "put strings into ' and leave names of properties bare",
    "!": "write <> for unequal and NOT for a negation",
    "/": "close the comment with */; there is no arithmetic",
    "*": "there is no arithmetic; TRUE takes every message",
    "%": "there is no arithmetic and no LIKE: use CONTAINS, STARTSWITH or ENDSWITH",
    "&": "write AND",
    "|": "write OR",
}
_REMEDY = "names of properties have letters a to z, digits, _ and $ only"


class Token(NamedTuple):
    """One token: its kind, as written, and where it begins."""

    kind: str
    text: str
    position: int


class Lexer:
    """Reads one token at a time, because RocketMQ does not look at tokens that it does not need.

    Args:
        text: the expression.
        members: whether names may have dots, see `pocketmq.protocol.filters.parse`.

    Raises:
        FilterSyntaxError: it is longer than `TEXT_LENGTH_MAX`.
    """

    def __init__(self, text: str, *, members: bool = False) -> None:
        if len(text) > TEXT_LENGTH_MAX:
            raise FilterSyntaxError(
                text,
                TEXT_LENGTH_MAX,
                f"an expression of at most {TEXT_LENGTH_MAX} characters",
                "shorten it, or set a property that says what the condition says",
            )
        self.text = text
        self._position, self._tokens = 0, _TOKEN_WITH_MEMBERS if members else _TOKEN

    def next(self) -> Token:
        """Returns the next token; after the last one, the end, however often.

        Raises:
            FilterSyntaxError: no token begins there.
        """
        skipped = _SKIPPED.match(self.text, self._position)
        assert skipped is not None  # it matches the empty text
        position = skipped.end()
        if position == len(self.text):
            return Token(END, "", position)
        match = self._tokens.match(self.text, position)
        if match is None:
            remedy = _REMEDIES.get(self.text[position], _REMEDY)
            raise FilterSyntaxError(self.text, position, "an operator, a name or a value", remedy)
        self._position = match.end()
        word = match.group()
        return Token(_kind(match.lastgroup, word), word, position)


def _kind(group: str | None, word: str) -> str:
    if group == "operator":
        return word
    if group == "name":
        keyword = word.upper()
        return keyword if keyword in KEYWORDS else NAME
    assert group is not None
    return _LITERALS[group]
