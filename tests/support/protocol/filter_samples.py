"""Filter expressions and message properties at random, from a seed.

Most expressions are well-formed and well-typed, some break one rule, some are noise: what RocketMQ
refuses and how it fails is as much a part of its behaviour as what it answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable

NAMES = ("a", "b", "c", "TAGS")
VALUES = (
    "5", "5", "7", "-5", "0", "05", "+7", "-0", "2147483647", "2147483648", "-2147483648",
    "-2147483649", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
    "000000000000000000000005", "5.0", "5.5", " 5.5\t", "5 ", ".5", "5.", "1e3", "1E+400", "NaN",
    "-NaN", "Infinity", "-Infinity", "inf", "nan", "-0.0", "0.0", "0x1p3", "0x.8P-2d", "0x1",
    "5d", "5.5F", "5L", "1_000", "٥", "𝟓", "+", "-", "", " ", "true", "TRUE", "False", "x", "X",
    "abc", "it's", "ab\nc", "null", "ü𝟓",
)  # fmt: skip
STRINGS = ("x", "X", "abc", "b", "", "5", "5.5", "true", "it's", "'", "ab\nc", "--", "ü𝟓", "a OR b")
NUMBERS = (
    "5", "5", "7", "0", "10", "1000", "5L", "2147483647", "2147483648", "2147483648l",
    "9223372036854775807", "9007199254740993", "5.0", "5.5", ".5", "7.", "1e3", "1.5E-3",
    "4.9E-324", "1.7976931348623157e308", "9007199254740992.0",
)  # fmt: skip
BAD_NUMBERS = ("9223372036854775808", "0.0", "1e400", "1e-400", "07", "0L", "1e", "5LL", "1..2")
NOISE = (
    "a", "b", "5", "5.5", "'x'", "''", "NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL",
    "IS", "CONTAINS", "STARTSWITH", "ENDSWITH", "=", "<>", "<", "<=", ">", ">=", "+", "-", "(", ")",
    ",", "like", "--", "-- c\n", "-- c\r", "/* c */", "/***/", "/*", "!", "!=", "==", "\"", "'",
    "*", "/", "%", "||", "\f", "\v", "\u00a0", "$_9", "9a", "ä",
)  # fmt: skip


def property_maps(seed: int, count: int) -> list[dict[str, str]]:
    """Messages' properties; the first has none, a third of all names are missing."""
    source = random.Random(seed)
    maps: list[dict[str, str]] = [{}]
    while len(maps) < count:
        maps.append({n: source.choice(VALUES) for n in NAMES if source.random() < 0.75})
    return maps


def expression_texts(seed: int, count: int, length_max: int = 90) -> list[str]:
    """Different expressions of at most that many characters."""
    source = random.Random(seed)
    texts: dict[str, None] = {}
    while len(texts) < count:
        text = _Writer(source).text()
        if len(text) <= length_max:
            texts[text] = None
    return list(texts)


class _Writer:
    def __init__(self, source: random.Random) -> None:
        self._source = source
        self._choice = source.choice
        self._is_rash = source.random() < 0.25

    def _chance(self, share: float) -> bool:
        return self._source.random() < share

    def text(self) -> str:
        if self._chance(0.05):
            return " ".join(self._choice(NOISE) for _ in range(self._source.randrange(1, 7)))
        text = self._condition(3)
        if self._chance(0.08):
            cut = self._source.randrange(len(text) + 1)
            text = f"{text[:cut]}{self._space()}{self._choice(NOISE)}{self._space()}{text[cut:]}"
        if self._chance(0.04):
            text += " " + self._choice(NOISE)
        return text

    def _space(self) -> str:
        return self._choice([" ", " ", " ", "", "\t", "\n", "/* c */", "-- c\n", "/**/ "])

    def _word(self, word: str) -> str:
        return self._choice([word, word, word.lower(), word.capitalize()])

    def _condition(self, depth: int) -> str:
        shapes: list[Callable[[int], str]] = [
            self._order, self._order, self._equal, self._equal, self._between, self._in,
            self._match, self._is_null,
        ]  # fmt: skip
        if depth:
            shapes += [self._joined, self._joined, self._joined, self._not, self._nested]
        if self._chance(0.1):
            return self._choice([*NAMES, self._word("TRUE"), "FALSE", "NULL"])
        return self._choice(shapes)(depth)

    def _joined(self, depth: int) -> str:
        word = self._word(self._choice(["AND", "OR"]))
        return f"{self._condition(depth - 1)} {word} {self._condition(depth - 1)}"

    def _not(self, depth: int) -> str:
        inner = self._condition(depth - 1)
        return f"{self._word('NOT')} {inner if self._chance(0.3) else f'({inner})'}"

    def _nested(self, depth: int) -> str:
        return f"({self._condition(depth - 1)})"

    def _value(self, depth: int) -> str:
        """Whatever may stand beside an equals sign."""
        return self._choice(
            [self._name, self._string, self._number, self._number, self._truth]
            + [lambda: f"({self._condition(depth - 1)})"] * (depth > 1)
        )()

    def _name(self) -> str:
        return self._choice(NAMES)

    def _truth(self) -> str:
        return self._word(self._choice(["TRUE", "FALSE"]))

    def _string(self) -> str:
        return "'" + self._choice(STRINGS).replace("'", "''") + "'"

    def _number(self) -> str:
        number = self._choice(BAD_NUMBERS if self._is_rash and self._chance(0.2) else NUMBERS)
        if self._chance(0.3):
            return self._choice(["-", "- ", "+", "- -", "-+", "--", "+-"]) + number
        return number

    def _operand(self, depth: int) -> str:
        """Whatever may stand beside a comparison, or in a rash expression may not."""
        if self._is_rash and self._chance(0.25):
            return self._value(depth)
        if self._chance(0.08):
            return self._choice(["-", "+", "- - "]) + self._value(depth)
        return self._choice([self._name, self._number])()

    def _order(self, depth: int) -> str:
        s = self._choice(["", " ", " "])
        sign = self._choice(["<", "<=", ">", ">="])
        return f"{self._operand(depth)}{s}{sign}{s}{self._operand(depth)}"

    def _equal(self, depth: int) -> str:
        s = self._choice(["", " ", " "])
        text = f"{self._value(depth)}{s}{self._choice(['=', '=', '<>'])}{s}{self._value(depth)}"
        return text + self._choice([" = TRUE", " <> b", " IS NULL"]) if self._chance(0.1) else text

    def _between(self, depth: int) -> str:
        low, high = self._operand(depth), self._operand(depth)
        word = self._negatable("BETWEEN")
        return f"{self._operand(depth)} {word} {low} {self._word('AND')} {high}"

    def _in(self, depth: int) -> str:
        values = ",".join(self._string() for _ in range(self._source.choice([1, 2, 3, 6])))
        operand = self._operand(depth) if self._is_rash else self._name()
        return f"{operand} {self._negatable('IN')} ({values})"

    def _match(self, depth: int) -> str:
        operand = self._value(depth) if self._chance(0.2) else self._name()
        word = self._negatable(self._choice(["CONTAINS", "STARTSWITH", "ENDSWITH"]))
        text = f"{operand} {word} {self._string()}"
        return f"{text} CONTAINS 'x'" if self._chance(0.05) else text

    def _is_null(self, depth: int) -> str:
        operand = self._value(depth) if self._chance(0.2) else self._name()
        return f"{operand} {self._word('IS')} {self._choice(['', 'NOT '])}{self._word('NULL')}"

    def _negatable(self, word: str) -> str:
        return self._choice(["", "", "NOT "]) + self._word(word)
