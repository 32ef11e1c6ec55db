"""Compiles the filter of a subscription: tags codes, or a condition on the properties."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from pocketmq.protocol.bodies.clients import SQL92, TAG, Subscription
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.filters.errors import FilterSyntaxError
from pocketmq.protocol.filters.expression import Expression, parse
from pocketmq.protocol.filters.lexer import TEXT_LENGTH_MAX

TAGS_CACHE_SIZE = 1_024
"""Sets of tags codes that are cached: a client may send another one with each pull."""
TAGS_LENGTH_MAX = 256 * 1024
"""Characters of an expression by tags: room for ten thousand tags."""
SQL92_CACHE_SIZE = 256
"""Short expressions that are cached."""
SQL92_CACHE_SIZES = ((256, SQL92_CACHE_SIZE), (1_024, 64), (TEXT_LENGTH_MAX, 4))
"""Characters up to which so many expressions are cached. The longest becomes 40,000 objects, and
Python's garbage collector looks at all objects while everybody waits."""

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
        FilterSyntaxError: it is no SQL92 expression, or too long.
        UsageError: there is no such type.
    """
    if expression_type in (None, "", TAG):
        if len(text) > TAGS_LENGTH_MAX:
            raise FilterSyntaxError(
                text,
                TAGS_LENGTH_MAX,
                f"an expression of at most {TAGS_LENGTH_MAX} characters",
                "subscribe to fewer tags, or to a property that says the same of many messages",
            )
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


_EXPRESSIONS = [(length, lru_cache(maxsize=size)(parse)) for length, size in SQL92_CACHE_SIZES]


def _expression(text: str, strict: bool) -> Expression:
    for length_max, cached in _EXPRESSIONS:
        if len(text) <= length_max:
            return cached(text, strict=strict)
    return parse(text, strict=strict)  # refuses it: it is too long
