"""Strings as numbers, as Java reads them (`Integer.valueOf`, `Long.valueOf`, `Double.valueOf`).

Python reads more (underscores, spaces, ``inf``) and less (``1d``, ``0x1p3``).
"""

from __future__ import annotations

import math
import re
import unicodedata
from functools import lru_cache

LONG_TEXT_LENGTH = 64
"""Characters above which a string is long: it takes long to read as a number, and much to keep."""

TEXTS_KEPT_MAX, LONG_TEXTS_KEPT_MAX = 1_024, 64
"""Strings of which it is kept what they are as numbers, since an expression may compare one of them
thousands of times."""

INT_MIN, INT_MAX = -(1 << 31), (1 << 31) - 1
LONG_MIN, LONG_MAX = -(1 << 63), (1 << 63) - 1

_SHORT_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_SPACES = "".join(map(chr, range(0x21)))
"""What `String.trim` takes off."""
# Possessive, so that the time for a string that is no number grows with its length only.
_DECIMAL = re.compile(r"([+-]?(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[fFdD]?")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
)
_WORD = re.compile(r"([+-]?)(NaN|Infinity)")


class Incomparable(Exception):
    """RocketMQ fails to compare two values: the whole expression does not match."""


def integer(text: str) -> int:
    """Reads a string as `Integer.valueOf` does: 32 bits.

    Raises:
        Incomparable: it is no integer, or too large for 32 bits.
    """
    # The first line is a shortcut for what most properties hold.
    if len(text) < 10 and text.isascii() and text.isdecimal():
        return int(text)
    return _whole(text, INT_MIN, INT_MAX)


def long(text: str) -> int:
    """Reads a string as `Long.valueOf` does: 64 bits.

    Raises:
        Incomparable: it is no integer, or too large for 64 bits.
    """
    if len(text) < 19 and text.isascii() and text.isdecimal():
        return int(text)
    return _whole(text, LONG_MIN, LONG_MAX)


def _whole(text: str, low: int, high: int) -> int:
    value = int(text) if _SHORT_INTEGER.fullmatch(text) else _unusual(text, max(-low, high))
    if low <= value <= high:
        return value
    raise Incomparable


@lru_cache(LONG_TEXTS_KEPT_MAX)
def _unusual(text: str, bound: int) -> int:
    """Reads what `int` does not: many leading zeros, and digits of any script up to U+FFFF."""
    sign = text[:1] if text[:1] in ("+", "-") else ""
    digits = text[len(sign) :]
    value = 0
    for character in digits:
        digit = unicodedata.decimal(character, None)
        if digit is None or character > "\uffff":
            raise Incomparable
        value = value * 10 + int(digit)
        if value > bound:
            raise Incomparable
    if not digits:
        raise Incomparable
    return -value if sign == "-" else value


def double(text: str) -> float:
    """Reads a string as `Double.valueOf` does.

    Raises:
        Incomparable: it is no number.
    """
    if len(text) > LONG_TEXT_LENGTH:
        return _double_of_long(text)
    # A shortcut for what most properties hold: digits, perhaps with a point among them.
    if text.isascii() and text.replace(".", "", 1).isdecimal():
        return float(text)
    return _double_of_short(text)


def _double(text: str) -> float:
    trimmed = text.strip(_SPACES)
    if match := _DECIMAL.fullmatch(trimmed):
        return float(match[1])
    if match := _WORD.fullmatch(trimmed):
        return float(match[1] + match[2])
    if match := _HEXADECIMAL.fullmatch(trimmed):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return -math.inf if trimmed[0] == "-" else math.inf
    raise Incomparable


_double_of_short = lru_cache(TEXTS_KEPT_MAX)(_double)
_double_of_long = lru_cache(LONG_TEXTS_KEPT_MAX)(_double)


def double_or_more(text: str) -> float:
    """Reads a string as `double`, for a comparison with a finite number: NaN is above all."""
    value = double(text)
    return math.inf if value != value else value


def number(text: str) -> int | float:
    """Reads a number of a body, which RocketMQ has no rule for: by its value, whole or not.

    Raises:
        Incomparable: it is no number.
    """
    if _SHORT_INTEGER.fullmatch(text):
        return int(text)
    try:
        return long(text)
    except Incomparable:
        return double_or_more(text)


def total_order(text: str) -> tuple[bool, float, float]:
    """Makes a key that sorts as `Double.compareTo`: -0.0 below 0.0, NaN above all others."""
    value = double(text)
    if value != value:
        return True, 0.0, 0.0
    return False, value, math.copysign(1.0, value)


def truth(text: str) -> bool:
    """Reads a string as `Boolean.valueOf` does."""
    return len(text) == len("true") and text.lower() == "true"
