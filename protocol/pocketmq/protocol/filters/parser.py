"""Turns tokens into nodes by recursive descent over RocketMQ's grammar (`SelectorParser.jj`).

Loosest first: OR; AND; ``=``, ``<>`` and IS NULL; the comparisons; NOT and signs; values and
parentheses. NOT binds tighter than a comparison: ``NOT a = 1`` is ``(NOT a) = 1``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pocketmq.protocol.filters import lexer
from pocketmq.protocol.filters.errors import FilterSyntaxError
from pocketmq.protocol.filters.lexer import Lexer
from pocketmq.protocol.filters.nodes import (
    CONDITIONS,
    And,
    Between,
    Condition,
    Double,
    Equal,
    In,
    Integer,
    IsNull,
    Negation,
    Node,
    Not,
    Null,
    Or,
    Order,
    Property,
    Text,
    TextMatch,
    Truth,
)

DEPTH_MAX = 64
"""Levels of nesting: each takes some Python frames to parse and evaluate, of about 1,000."""

IN_VALUES_MAX = 1_000
"""Values of one IN list."""

TEXT_SEARCHES_MAX = 256
"""CONTAINS, STARTSWITH and ENDSWITH of one expression: a property may be 32 KB long."""

LONG_MAX = (1 << 63) - 1

_ORDERS = ("<", "<=", ">", ">=")
_MATCHES = ("CONTAINS", "STARTSWITH", "ENDSWITH")
_VALUE = "a property, a value or ("
_CONDITION_REMEDY = "compare it: a condition is for example a = 'x' or b > 1"


class Part(NamedTuple):
    """A node, the position at which its text begins, and the levels of nodes in it."""

    node: Node
    position: int
    depth: int


def parse_node(text: str, *, strict: bool, members: bool = False) -> Condition:
    """Parses one condition.

    Args:
        text: the expression.
        strict: refuse anything after the condition; RocketMQ does not look at it.
        members: whether names may have dots.

    Raises:
        FilterSyntaxError: the text is no condition, or passes a limit.
    """
    return _Parser(text, members=members).condition(strict)


class _Parser:
    def __init__(self, text: str, *, members: bool) -> None:
        self._lexer = Lexer(text, members=members)
        self._token = self._lexer.next()
        self._open = self._text_searches = 0

    def condition(self, strict: bool) -> Condition:
        condition = self._as_condition(self._or())
        token = self._token
        # A comment on the last line, without the end of that line, is text that follows to
        # RocketMQ; it is the only such text that surely was not meant to filter.
        if strict and token.kind != lexer.END and not self._lexer.text.startswith(
            "--", token.position
        ):  # fmt: skip
            raise self._error(
                "the end of the expression",
                "join conditions with AND or OR; there is neither arithmetic nor LIKE (use "
                "CONTAINS, STARTSWITH, ENDSWITH). RocketMQ would ignore all that follows",
            )
        return condition

    # -- tokens ---------------------------------------------------------------------------------

    def _error(self, expected: str, remedy: str, position: int | None = None) -> FilterSyntaxError:
        where = self._token.position if position is None else position
        return FilterSyntaxError(self._lexer.text, where, expected, remedy)

    def _accept(self, *kinds: str) -> str | None:
        kind = self._token.kind
        if kind not in kinds:
            return None
        self._token = self._lexer.next()
        return kind

    def _take(self, kind: str, remedy: str) -> str:
        token = self._token
        if token.kind != kind:
            raise self._error(kind, remedy)
        self._token = self._lexer.next()
        return token.text

    def _string(self) -> str:
        text = self._take(lexer.STRING, "put it into ' ': only strings are taken here")
        return text[1:-1].replace("''", "'")

    def _nested(self, read: Callable[[], Part]) -> Part:
        self._open += 1
        self._check_depth(self._open, self._token.position)
        part = read()
        self._open -= 1
        return part

    # -- building -------------------------------------------------------------------------------

    def _check_depth(self, depth: int, position: int) -> None:
        if depth > DEPTH_MAX:
            raise self._error(
                f"at most {DEPTH_MAX} levels of nesting",
                "leave out parentheses and signs that change nothing",
                position,
            )

    def _build(self, node: Node, *parts: Part) -> Part:
        depth = 1 + max(part.depth for part in parts)
        position = parts[0].position
        self._check_depth(depth, position)
        return Part(node, position, depth)

    def _as_condition(self, part: Part) -> Condition:
        if isinstance(part.node, CONDITIONS):
            return part.node
        raise self._error("a condition", _CONDITION_REMEDY, part.position)

    # -- grammar, loosest first -----------------------------------------------------------------

    def _or(self) -> Part:
        first = self._and()
        if self._token.kind != "OR":
            return first
        parts, conditions = [first], _flat(Or, self._as_condition(first))
        while self._accept("OR"):
            parts.append(self._and())
            conditions += _flat(Or, self._as_condition(parts[-1]))
        return self._build(Or(tuple(conditions)), *parts)

    def _and(self) -> Part:
        first = self._equality()
        if self._token.kind != "AND":
            return first
        parts, conditions = [first], _flat(And, self._as_condition(first))
        while self._accept("AND"):
            parts.append(self._equality())
            conditions += _flat(And, self._as_condition(parts[-1]))
        return self._build(And(tuple(conditions)), *parts)

    def _equality(self) -> Part:
        left = self._comparison()
        while operator := self._accept("=", "<>", "IS"):
            if operator == "IS":
                negated = self._accept("NOT") is not None
                self._take("NULL", "only IS NULL and IS NOT NULL exist; compare with =")
                left = self._build(IsNull(left.node), left)
            else:
                negated = operator == "<>"
                right = self._comparison()
                self._check_equal(left, right)
                left = self._build(Equal(left.node, right.node), left, right)
            if negated:
                left = self._not(left)
        return left

    def _comparison(self) -> Part:
        left = self._unary()
        while True:
            if operator := self._accept(*_ORDERS):
                right = self._unary()
                self._check_ordered(left, right)
                left = self._build(Order(operator, left.node, right.node), left, right)
                continue
            negated = self._accept("NOT") is not None
            if operator := self._accept(*_MATCHES):
                self._text_searches += 1
                if self._text_searches > TEXT_SEARCHES_MAX:
                    raise self._error(
                        f"at most {TEXT_SEARCHES_MAX} CONTAINS, STARTSWITH and ENDSWITH",
                        "give the message a property for it when it is sent, and compare that",
                    )
                node = TextMatch(operator, negated, left.node, self._string())
                left = self._build(node, left)
            elif self._accept("BETWEEN"):
                left = self._between(left, negated)
            elif self._accept("IN"):
                left = self._in(left)
                left = self._not(left) if negated else left
            elif negated:
                raise self._error(
                    "BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH",
                    "elsewhere NOT stands before the condition: NOT (a = 1)",
                )
            else:
                return left

    def _between(self, operand: Part, negated: bool) -> Part:
        low = self._unary()
        self._take("AND", "write BETWEEN low AND high")
        high = self._unary()
        self._check_ordered(operand, low, high)
        ends = low.node, high.node
        # Only the positive form is checked by RocketMQ, and only bounds without a sign.
        if (
            not negated
            and isinstance(ends[0], (Integer, Double))
            and isinstance(ends[1], (Integer, Double))
            and _is_above(ends[0].value, ends[1].value)
        ):
            raise self._error("a low bound up to the high one", "swap the bounds", low.position)
        between = self._build(Between(operand.node, *ends), operand, low, high)
        return self._not(between) if negated else between

    def _in(self, operand: Part) -> Part:
        if not isinstance(operand.node, Property):
            raise self._error(
                "a property before IN", "write NOT after the property: a NOT IN ('x')",
                operand.position,
            )  # fmt: skip
        self._take("(", "list the values in parentheses: a IN ('x', 'y')")
        values = [self._string()]
        while self._accept(","):
            if len(values) == IN_VALUES_MAX:
                raise self._error(
                    f"at most {IN_VALUES_MAX} values", "split the list: a IN (...) OR a IN (...)"
                )
            values.append(self._string())
        self._take(")", "close the list with ), and part its strings with commas")
        return self._build(In(operand.node, tuple(values)), operand)

    def _not(self, part: Part) -> Part:
        return self._build(Not(self._as_condition(part)), part)

    def _unary(self) -> Part:
        position = self._token.position
        sign = self._accept("+", "-", "NOT")
        if sign is None:
            return self._primary()
        operand = self._nested(self._unary)
        if sign == "NOT":
            return self._not(operand)._replace(position=position)
        if sign == "-":
            return self._build(Negation(operand.node), operand)._replace(position=position)
        return operand  # a plus sign changes nothing, whatever it stands before

    def _primary(self) -> Part:
        position = self._token.position
        if self._accept("("):
            inner = self._nested(self._or)
            self._take(")", "close the parenthesis; join conditions with AND or OR")
            return inner._replace(position=position)
        return Part(self._value(), position, 1)

    def _value(self) -> Node:
        kind, text, position = self._token
        if kind == lexer.STRING:
            return Text(self._string())
        if not self._accept(lexer.NAME, lexer.INTEGER, lexer.DOUBLE, "TRUE", "FALSE", "NULL"):
            raise self._error(_VALUE, "each operator needs a value on both sides; = is equality")
        if kind == lexer.NAME:
            return Property(text)
        if kind == lexer.INTEGER:
            return self._integer(text.rstrip("lL"), position)
        if kind == lexer.DOUBLE:
            return self._double(text, position)
        return Null() if kind == "NULL" else Truth(kind == "TRUE")

    def _integer(self, digits: str, position: int) -> Integer:
        # Python refuses to read thousands of digits: the length is looked at first.
        if len(digits) > len(str(LONG_MAX)) or int(digits) > LONG_MAX:
            raise self._error(
                f"an integer up to {LONG_MAX}", "write it as a decimal: 1e20", position
            )
        return Integer(int(digits))

    def _double(self, text: str, position: int) -> Double:
        value = float(text)
        if 0.0 < value < float("inf"):
            return Double(value)
        raise self._error(
            "a decimal from 4.9E-324 to 1.7976931348623157E308",
            "write zero as 0: RocketMQ refuses a decimal of zero",
            position,
        )

    # -- which operands RocketMQ refuses --------------------------------------------------------

    def _check_equal(self, left: Part, right: Part) -> None:
        for part in (left, right):
            if isinstance(part.node, Null):
                raise self._error(
                    "a value other than NULL", "write IS NULL or IS NOT NULL", part.position
                )
        if isinstance(left.node, Truth) and isinstance(right.node, (Integer, Double, Text)):
            raise self._error("TRUE or FALSE", "compare a property with the value", right.position)

    def _check_ordered(self, *parts: Part) -> None:
        for part in parts:
            if not isinstance(part.node, (Integer, Double, Property, Negation)):
                raise self._error(
                    "a number or a property",
                    "strings and conditions have no order: compare them with = or IN; put NOT "
                    "before parentheses",
                    part.position,
                )


_Flat = TypeVar("_Flat", And, Or)


def _flat(shape: type[_Flat], condition: Condition) -> list[Condition]:
    """Returns the parts of nested conditions of one shape (AND or OR), else the condition alone."""
    return list(condition.parts) if isinstance(condition, shape) else [condition]


def _is_above(low: int | float, high: int | float) -> bool:
    """Whether low > high in Java, which compares a long with a double as doubles."""
    if isinstance(low, float) or isinstance(high, float):
        return float(low) > float(high)
    return low > high
