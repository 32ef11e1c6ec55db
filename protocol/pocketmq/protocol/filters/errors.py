"""The error of a filter expression that is refused."""

from __future__ import annotations

from pocketmq.protocol.errors import UsageError

_EXCERPT_LENGTH = 24


class FilterSyntaxError(UsageError):
    """A filter expression that RocketMQ's rules, or the limits of this package, refuse.

    Attributes:
        text: the whole expression.
        position: index of the character in the text where it goes wrong, from 0.
        expected: what should have been there.
        remedy: what to write instead.
    """

    def __init__(self, text: str, position: int, expected: str, remedy: str) -> None:
        super().__init__(text, position, expected, remedy)
        self.text, self.position = text, position
        self.expected, self.remedy = expected, remedy

    def __str__(self) -> str:
        rest = self.text[self.position : self.position + _EXCERPT_LENGTH]
        found = repr(rest) if rest else "the end"
        return (
            f"the filter expression is wrong at character {self.position + 1}: "
            f"{self.expected} expected, not {found}: {self.remedy}"
        )
