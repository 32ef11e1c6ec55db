"""This project's answers in the letters of ``golden.json``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pocketmq.protocol.filters import Expression, FilterSyntaxError, parse
from pocketmq.protocol.filters.conversions import Incomparable

REFUSED = "!"
_LETTERS = {True: "T", False: "F", None: "N"}


def answer(text: str, maps: Iterable[Mapping[str, str]]) -> str:
    try:
        expression = parse(text)
    except FilterSyntaxError:
        return REFUSED
    return "".join(_letter(expression, properties) for properties in maps)


def _letter(expression: Expression, properties: Mapping[str, str]) -> str:
    try:
        return _LETTERS[expression.evaluate(properties)]
    except Incomparable:
        return "E"
