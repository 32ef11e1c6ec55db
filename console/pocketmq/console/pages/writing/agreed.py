"""What a form shows of settings that brokers may have in different ways."""

from __future__ import annotations

from collections.abc import Iterable


def agreed(texts: Iterable[str]) -> str:
    """The text on which all agree; empty if they do not."""
    different = set(texts)
    return different.pop() if len(different) == 1 else ""


def answer(value: bool) -> str:
    """A yes or no, as `Typed.answer` reads it."""
    return "yes" if value else "no"
