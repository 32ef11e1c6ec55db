"""Message filters: RocketMQ's SQL92 expressions and tag expressions (`filter/`).

An own recursive-descent parser is used rather than sqlglot, because RocketMQ's grammar is not SQL's
(CONTAINS, STARTSWITH, ENDSWITH, no arithmetic, NOT that binds tighter than a comparison, a unary
minus on properties, a parser that ignores what follows one expression) and its null and type rules
would have to be written either way.

Text becomes tokens (`lexer`), tokens become nodes (`parser`, `nodes`), nodes become closures
(`evaluation`, with Java's reading of numbers in `conversions`).
"""

from __future__ import annotations

from pocketmq.protocol.filters.errors import FilterSyntaxError
from pocketmq.protocol.filters.expression import Expression, parse
from pocketmq.protocol.filters.lexer import TEXT_LENGTH_MAX
from pocketmq.protocol.filters.parser import DEPTH_MAX, IN_VALUES_MAX
from pocketmq.protocol.filters.selection import (
    SQL92_CACHE_SIZE,
    TAGS_CACHE_SIZE,
    MessageFilter,
    compile_filter,
)

__all__ = [
    "DEPTH_MAX",
    "IN_VALUES_MAX",
    "SQL92_CACHE_SIZE",
    "TAGS_CACHE_SIZE",
    "TEXT_LENGTH_MAX",
    "Expression",
    "FilterSyntaxError",
    "MessageFilter",
    "compile_filter",
    "parse",
]
