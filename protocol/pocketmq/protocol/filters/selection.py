"""Compiles the filter of a subscription: tags codes, or a condition on the properties."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from pocketmq.protocol.bodies.clients import SQL92, TAG, Subscription
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters.expression import Expression, parse
from pocketmq.protocol.filters.lexer import TEXT_LENGTH_MAX

TAGS_CACHE_SIZE = 1_024
"""Sets of tags codes that are cached: a client may send another one with each pull."""
SQL92_CACHE_SIZE = 256
"""Expressions that are cached; the longest takes about 1.5 MB once it is compiled."""

MessageFilter: TypeAlias = frozenset[int] | Expression | None
"""The tags codes that pass, or the condition on the properties; None lets everything pass."""


def compile_filter(expression_type: str | None, text: str, *, strict: bool = True) -> MessageFilter:
    """Compiles the filter of a subscription; the most recently used filters are cached.

    Args:
        expression_type: TAG, which None and the empty string stand for too, or SQL92.
        text: the subscription's expression.
        strict: refuse a SQL92 expression of which RocketMQ would ignore the end. This is the
            default because such a filter loses messages silently, which serves nobody.

    Raises:
        FilterSyntaxError: it is no SQL92 expression.
        UsageError: there is no such type.
    """
    if expression_type in (None, "", TAG):
        if len(text) > TEXT_LENGTH_MAX:  # too long to be kept, not too long to be used
            return _tags_codes.__wrapped__(text)
        return _tags_codes(text)
    if expression_type == SQL92:
        return _expression(text, strict)
    raise UsageError(
        f"there is no expression type {expression_type!r}: subscribe with {TAG} or {SQL92}"
    )


@lru_cache(maxsize=TAGS_CACHE_SIZE)
def _tags_codes(text: str) -> frozenset[int] | None:
    subscription = Subscription.of_tags("", text, 0)
    return None if subscription.takes_all else frozenset(subscription.code_set)


@lru_cache(maxsize=SQL92_CACHE_SIZE)
def _expression(text: str, strict: bool) -> Expression:
    return parse(text, strict=strict)
