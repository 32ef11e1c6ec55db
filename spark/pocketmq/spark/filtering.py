"""Expressions by which the broker filters: tags, or SQL92 conditions on properties."""

from __future__ import annotations

import re
from typing import NamedTuple

from pocketmq.spark.errors import OptionError

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"
_NO_TAG = re.compile(r"[\s=<>()']")


class Expression(NamedTuple):
    """An expression by which the broker filters pulls.

    Attributes:
        text: as RocketMQ's subscriptions have it.
        kind: `TAG` or `SQL92`.
    """

    text: str = ALL
    kind: str = TAG

    @property
    def takes_all(self) -> bool:
        """Whether the expression matches every message."""
        return self.kind == TAG and self.text == ALL

    @property
    def tags(self) -> frozenset[str] | None:
        """The tags that match; None if the expression does not go by tags."""
        if self.kind != TAG or self.takes_all:
            return None
        return frozenset(self.text.split("||"))


def read_expression(text: str, kind: str) -> Expression:
    """Reads the options ``filter`` and ``expressionType``.

    Raises:
        OptionError: the kind is unknown, a tag cannot be one, or a condition is none: RocketMQ's
            brokers give all messages for such a condition.
    """
    kind = kind.upper()
    if kind not in (TAG, SQL92):
        raise OptionError(f"option 'expressionType' is {kind!r}; it is {TAG} or {SQL92}")
    text = text.strip()
    if not text or text == ALL:
        return Expression()
    if kind == SQL92:
        from pocketmq.protocol import filters  # not for tags: every process of Spark imports this
        from pocketmq.protocol.filters.errors import FilterSyntaxError

        try:
            filters.parse(text, strict=True)
        except FilterSyntaxError as e:
            raise OptionError(f"option 'filter' is no SQL92 condition: {e}") from e
        return Expression(text, SQL92)
    tags = [tag.strip() for tag in text.split("||")]
    if wrong := [tag for tag in tags if not tag or _NO_TAG.search(tag)]:
        raise OptionError(
            f"option 'filter' is {text!r}, and {wrong[0]!r} is no tag: tags are written as "
            f"'new || paid'; for a condition on properties set expressionType=SQL92"
        )
    return Expression("||".join(tags))


def of_tags(tags: frozenset[str]) -> Expression | None:
    """Makes the expression that matches some tags; None if it cannot be written."""
    if not tags or any(not t or t != t.strip() or t == ALL or "|" in t for t in tags):
        return None
    return Expression("||".join(sorted(tags)))


ALL_MESSAGES = Expression()
