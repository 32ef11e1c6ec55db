"""What RocketMQ 5.5.0 answers, rule by rule: expression, properties, T F N E as in `answers`."""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    text: str
    properties: dict[str, str]
    answer: str


def _cases(answer: str, properties: dict[str, str], *texts: str) -> list[Case]:
    return [Case(text, properties, answer) for text in texts]


CASES = [
    # a property alone is never true, whatever it reads
    *_cases("N", {}, "a", "NOT a", "a OR FALSE", "a AND TRUE", "NULL", "NOT NULL"),
    *_cases("F", {"a": "true"}, "a", "+a", "a OR FALSE", "a AND TRUE"),
    *_cases("T", {"a": "true"}, "NOT a", "a = TRUE", "a = true", "a <> FALSE", "a = 'true'"),
    *_cases("T", {"a": "tRuE"}, "a = TRUE", "(b IS NULL) = TRUE", "a = (b IS NULL)"),
    *_cases("F", {"a": "yes"}, "a = TRUE", "a <> FALSE", "(a = 'yes') = FALSE"),
    # three-valued logic
    *_cases("N", {}, "a = 1", "a <> 1", "NOT (a = 1)", "a > 1 AND TRUE", "a > 1 OR FALSE"),
    *_cases("F", {}, "a > 1 AND FALSE", "FALSE AND a > 1"),
    *_cases("T", {}, "a > 1 OR TRUE", "TRUE OR a > 1"),
    # null on one side counts by the side, and two nulls are equal
    *_cases("N", {}, "a = 'x'", "a = 5", "a IN ('x')", "a NOT IN ('x')", "5 > a", "a > b"),
    *_cases("F", {}, "'x' = a", "5 = a", "a <> b"),
    *_cases("T", {}, "'x' <> a", "5 <> a", "a = b", "a IS NULL", "NULL IS NULL", "a = -b"),
    *_cases("F", {"a": "x"}, "a IS NULL", "a = b"),
    *_cases("T", {"a": "x"}, "a IS NOT NULL", "a <> b", "(a = 'x') IS NOT NULL", "-a IS NULL"),
    *_cases("N", {"a": "x"}, "b = a", "b <> a"),
    # a range: below the low bound the high one is not looked at
    *_cases("F", {"a": "7", "b": "x"}, "a BETWEEN 8 AND b", "a BETWEEN 8 AND c", "a = 5 AND b"),
    *_cases("T", {"a": "7", "b": "x"}, "a NOT BETWEEN 8 AND 1", "a NOT BETWEEN 8 AND b"),
    *_cases("N", {"a": "7"}, "a BETWEEN 5 AND c", "a BETWEEN c AND 8", "c BETWEEN 1 AND 2"),
    *_cases("F", {"a": "7"}, "a BETWEEN c AND 6"),
    *_cases("E", {"a": "7", "b": "x"}, "a BETWEEN 5 AND b", "b BETWEEN 1 AND 2"),
    # strings against numbers: read as the number's own type
    *_cases("T", {"a": "7"}, "a > 5", "5 < a", "a = 7", "a = 7L", "a = 7.0", "a <> 8", "a >= 7"),
    *_cases("T", {"a": "7"}, "a BETWEEN 7 AND 8", "a NOT BETWEEN 8 AND 9", "NOT (a = 8)"),
    *_cases("F", {"a": "7"}, "a = '7.0'", "a < -7", "a BETWEEN 8 AND -8", "a NOT IN ('7')"),
    *_cases("T", {"a": "-7"}, "a < -6", "a = -7", "a = - -(-7)", "a > -7.5", "-7 = a"),
    *_cases("E", {"a": "7.5"}, "a > 5", "a = 7", "a <> 7", "NOT (a > 5)", "a > 5 OR TRUE"),
    *_cases("T", {"a": "7.5"}, "a > 5.0", "a = 7.5", "TRUE OR a > 5", "a > 5.0 AND a < 1e3"),
    *_cases("E", {"a": "3000000000"}, "a > 5", "5 = a"),
    *_cases("T", {"a": "3000000000"}, "a > 2147483648", "a > 5.0", "a = 3000000000"),
    *_cases("E", {"a": "x"}, "a = 5", "5 > a", "a > 5.5", "a > b OR a = 5", "a < 9999999999"),
    *_cases("T", {"a": " 7.5d\n", "b": "0x1p3"}, "a = 7.5", "b = 8.0", "a < b"),
    *_cases("E", {"a": " 7", "b": "0x8"}, "a = 7", "b = 8", "b = 8.0"),
    *_cases("T", {"a": "NaN"}, "a > 1.7e308", "NOT (a < 1.5)", "a = a", "a >= a", "a <> 1.5"),
    *_cases("T", {"a": "0.0", "b": "-0.0"}, "a > b", "a <> b"),
    *_cases("T", {"a": "10", "b": "9"}, "a > b", "b < a", "b BETWEEN b AND a", "a <> b"),
    *_cases("E", {"a": "10", "b": "x"}, "a > b", "b <= b"),
    # numbers against numbers
    *_cases(
        "T", {}, "5 = 5.0", "9007199254740993 = 9007199254740992.0", "2147483648 > 5", "-5 < 0"
    ),
    *_cases("F", {}, "5 = TRUE", "(5 > 4) = 5"),
    # a boolean against a string works from one side only
    *_cases("T", {"a": "true"}, "'TRUE' = TRUE", "TRUE = TRUE", "a = (5 > 4)"),
    *_cases("E", {"a": "true"}, "TRUE = a", "(5 > 4) = a", "(5 > 4) = 'true'", "TRUE <> a"),
    *_cases("F", {}, "TRUE = a", "(5 > 4) = a"),
    # minus before anything but a number literal is null
    *_cases("N", {"a": "7"}, "-a = 5", "-a > 5", "a > -'x'", "-(a = '7') = TRUE", "-NULL = 5"),
    # IN takes strings, and compares them as they are
    *_cases("T", {"a": "it's"}, "a IN ('x','it''s')", "a NOT IN ('x')", "(a) IN ('it''s')"),
    *_cases("F", {"a": "7"}, "a IN ('7.0', '07')"),
    # the text operators are never null, negated or not
    *_cases("T", {"a": "abc"}, "a CONTAINS 'b'", "a STARTSWITH 'ab'", "a ENDSWITH 'bc'"),
    *_cases("T", {"a": "abc"}, "a NOT CONTAINS 'x'", "a NOT STARTSWITH 'b'", "'xy' CONTAINS 'y'"),
    *_cases("F", {"a": "abc"}, "a CONTAINS ''", "a NOT CONTAINS ''", "a NOT ENDSWITH 'c'"),
    *_cases("F", {}, "a CONTAINS 'b'", "a NOT CONTAINS 'b'", "5 NOT CONTAINS '6'"),
    *_cases("T", {}, "NOT (a CONTAINS 'b')", "NOT (a NOT CONTAINS 'b')"),
    *_cases("F", {"a": "abc"}, "a CONTAINS 'b' NOT CONTAINS 'x'", "(b > 1) NOT CONTAINS 'x'"),
    # NOT binds tighter than comparisons
    *_cases("F", {"a": "x"}, "FALSE AND NOT a = 'y'", "NOT a CONTAINS 'z'", "NOT a IS NULL"),
    *_cases("E", {"a": "x"}, "NOT a = 'y'"),
    # AND binds tighter than OR
    *_cases("T", {}, "TRUE OR TRUE AND FALSE", "NOT FALSE OR a = 1", "TRUE = TRUE = TRUE"),
    *_cases("F", {}, "(TRUE OR TRUE) AND FALSE"),
    # names, keywords and TAGS
    *_cases(
        "T", {"TAGS": "x", "$_9": "y"}, "TAGS = 'x'", "$_9 = 'y'", "tags is null", "TAGS In('x')"
    ),
    *_cases("T", {"NOTa": "x"}, "NOTa = 'x'", "nOt NOTa"),
    # spaces, comments, literals
    *_cases(
        "T", {"a": "5"}, "a\t=\n5", "a=5-- c", "/* c */a/***/=-- b\r\n5", "-- a\na = 5", "a = --5"
    ),
    *_cases("F", {"a": "5"}, "a = -- 5\n 7", "a<-.5", "a =5e1", "a < 5.", "a = - -\n-5"),
    *_cases("T", {"a": "a\nb", "b": "'"}, "a = 'a\nb'", "b = ''''", "a <> ''"),
    # what follows one condition is not looked at
    *_cases("F", {"a": "5"}, "a like '5'", "a + 1 > 2", "a )", "a b ! ! '", "a, a = 5", "a TRUE"),
    *_cases("T", {"a": "0"}, "a = 07", "a = 0L", "a = 0 (", "a = 0 'x' !"),
]

REFUSED = (
    "", " ", "-- c\n", "*", "5", "'x'", "-a", "NOT 5", "a AND 5", "5.5", "'x' OR a", "a OR",
    "AND a", "(a", "()", "a > ", "a >> 5", "a == 5", "a != 5", "a = \"x\"", "a = 'x", "a = 0 'x",
    "a 'x", "a = NULL", "a <> NULL", "NULL = a", "a = (NULL)", "TRUE = 5", "FALSE = 'x'",
    "TRUE <> 'x'",
    "a > 'x'", "'x' < a", "a > TRUE", "a > NULL", "a > (b = 1)", "a > 1 > 2", "NOT a > 1",
    "a BETWEEN 'a' AND 'b'", "a BETWEEN 5 AND 1", "a BETWEEN 5.5 AND 5", "a BETWEEN NULL AND 5",
    "a BETWEEN 1 OR 5", "a BETWEEN 1", "TRUE BETWEEN 1 AND 2", "a NOT BETWEEN 'a' AND 1",
    "a IN ()", "a IN (5)", "a IN 'x'", "a IN ('x'", "a IN ('x',)", "'a' IN ('a')", "-a IN ('x')",
    "NOT a IN ('x')", "a CONTAINS b", "a CONTAINS ('x')", "a CONTAINS 5", "a NOT = 5", "a NOT NULL",
    "a IS 5", "a IS NOT 5", "a IS", "a = 9223372036854775808", "a = -9223372036854775808",
    "a > 0.0", "a > 1e400", "a > 1e-400", "a /* c", "a % 2", "a*2 > 1", "a = 'x' !",
    "ä = 5", "a\v= 5",
)  # fmt: skip
