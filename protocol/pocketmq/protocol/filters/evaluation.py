"""Turns nodes into closures, because one expression meets millions of messages.

Logic has three values: true, false and null, which here is None. A comparison that RocketMQ fails
to make (a property that is no number against a number) ends the whole evaluation with
`Incomparable`, also inside OR and NOT: `ExpressionMessageFilter` catches it and drops the message.

The kind of every operand is known before any message is: properties are strings, signs make
numbers of number literals and null of everything else. So each closure has its conversion built in.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, NamedTuple, NoReturn

from pocketmq.protocol.filters import conversions
from pocketmq.protocol.filters.conversions import INT_MAX, Incomparable
from pocketmq.protocol.filters.nodes import (
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

Properties = Mapping[str, str]
Evaluation = Callable[[Properties], "bool | None"]
Conversion = Callable[[Any], Any]
Comparison = Callable[[Any, Any], bool]

_COMPARISONS: dict[str, Comparison] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


class Kind(Enum):
    """The Java type of an operand's values, null aside."""

    STRING = 1
    INTEGER = 2
    LONG = 3
    DOUBLE = 4
    BOOLEAN = 5
    NULL = 6
    CONTENT = 7
    """No kind of RocketMQ's: a member of a body, as text; any number in it has its exact value."""


_NUMBERS: dict[Kind, Callable[[str], float]] = {
    Kind.INTEGER: conversions.integer,
    Kind.LONG: conversions.long,
    Kind.DOUBLE: conversions.double_or_more,
}
"""How a string is read that is compared with a number of this kind."""

_TEXTS = frozenset({Kind.STRING, Kind.CONTENT})


class Operand(NamedTuple):
    """One side of a comparison: its kind, and a function from properties to its value, or None."""

    kind: Kind
    value: Callable[[Properties], Any]


def evaluation_of(condition: Condition) -> Evaluation:
    """Makes the function that evaluates a condition; the function may raise `Incomparable`."""
    return _COMPILERS[type(condition)](condition)


# -- logic ------------------------------------------------------------------------------------


def _property(node: Property) -> Evaluation:
    name = node.name
    # A property is a string, never a boolean, even if it reads "true".
    return lambda properties: False if name in properties else None


def _constant(node: Truth) -> Evaluation:
    value = node.value
    return lambda properties: value


def _null(node: Null) -> Evaluation:
    return lambda properties: None


def _not(node: Not) -> Evaluation:
    inner = evaluation_of(node.operand)

    def evaluate(properties: Properties) -> bool | None:
        value = inner(properties)
        return None if value is None else not value

    return evaluate


def _and(node: And) -> Evaluation:
    parts = tuple(evaluation_of(part) for part in node.parts)

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = True
        for part in parts:
            value = part(properties)
            if not value:
                if value is False:
                    return False
                result = None
        return result

    return evaluate


def _or(node: Or) -> Evaluation:
    parts = tuple(evaluation_of(part) for part in node.parts)

    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = False
        for part in parts:
            value = part(properties)
            if value:
                return True
            if value is None:
                result = None
        return result

    return evaluate


# -- operands ---------------------------------------------------------------------------------


def _operand(node: Node) -> Operand:
    if isinstance(node, Property):
        name = node.name
        kind = Kind.CONTENT if node.is_member else Kind.STRING
        return Operand(kind, lambda properties: properties.get(name))
    if isinstance(node, Text):
        text = node.value
        return Operand(Kind.STRING, lambda properties: text)
    if isinstance(node, (Integer, Double, Negation)):
        kind, number = _number(node)
        if kind is not Kind.NULL:
            return Operand(kind, lambda properties: number)
        assert isinstance(node, Negation)
        return Operand(Kind.NULL, _emptied(_operand(node.operand)))
    return Operand(Kind.BOOLEAN, evaluation_of(node))


def _number(node: Node) -> tuple[Kind, int | float]:
    """Returns kind and value of a number literal with or without signs, else (NULL, 0)."""
    if isinstance(node, Integer):
        # The suffix L does not count. A sign does not change the kind: -2147483648 is a long.
        return (Kind.INTEGER if node.value <= INT_MAX else Kind.LONG), node.value
    if isinstance(node, Double):
        return Kind.DOUBLE, node.value
    if isinstance(node, Negation):
        kind, value = _number(node.operand)
        return kind, -value
    return Kind.NULL, 0


def _emptied(operand: Operand) -> Callable[[Properties], None]:
    """Evaluates minus something that is no number: to null, unless its operand fails."""

    def value(properties: Properties) -> None:
        operand.value(properties)

    return value


# -- comparisons ------------------------------------------------------------------------------


def _order(node: Order) -> Evaluation:
    return _property_with_number(node.operator, node.left, node.right) or _any_order(
        node.operator, _operand(node.left), _operand(node.right)
    )


def _property_with_number(sign: str, left: Node, right: Node) -> Evaluation | None:
    """Compares a property with a number, the common case, by one closure; None for other cases."""
    missing: bool | None = None
    if isinstance(right, Property):
        # x = property is false, not null, where the property is missing; property = x is null.
        left, right, sign = right, left, _MIRRORED[sign]
        missing = False if sign == "=" else None
    kind, number = _number(right)
    if not isinstance(left, Property) or kind is Kind.NULL:
        return None
    name, compare = left.name, _COMPARISONS[sign]
    convert = conversions.number if left.is_member else _NUMBERS[kind]

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return missing if text is None else compare(convert(text), number)

    return evaluate


def _any_order(sign: str, left: Operand, right: Operand) -> Evaluation:
    compare = _COMPARISONS[sign]
    convert_left, convert_right = _order_conversions(left.kind, right.kind)

    def evaluate(properties: Properties) -> bool | None:
        low = left.value(properties)
        if low is None:
            return None
        high = right.value(properties)
        if high is None:
            return None
        return compare(convert_left(low), convert_right(high))

    return evaluate


def _order_conversions(left: Kind, right: Kind) -> tuple[Conversion, Conversion]:
    if left in _TEXTS and right in _TEXTS:
        return conversions.total_order, conversions.total_order
    return _number_conversions(left, right)


def _number_conversions(left: Kind, right: Kind) -> tuple[Conversion, Conversion]:
    """For a number and a number, or a number and a string; nothing for what is always null."""
    if left in _TEXTS and right in _NUMBERS:
        return _reading(left, right), _same
    if right in _TEXTS and left in _NUMBERS:
        return _same, _reading(right, left)
    if Kind.DOUBLE in (left, right):
        return float, float
    return _same, _same


def _reading(text: Kind, number: Kind) -> Conversion:
    """How a text is read that is compared with a number."""
    return conversions.number if text is Kind.CONTENT else _NUMBERS[number]


def _same(value: Any) -> Any:
    return value


def _between(node: Between) -> Evaluation:
    """Evaluates ``x >= low AND x <= high``, and x only once: nested, the work would double."""
    operand, low, high = _operand(node.operand), _operand(node.low), _operand(node.high)
    convert_for_low, convert_low = _order_conversions(operand.kind, low.kind)
    convert_for_high, convert_high = _order_conversions(operand.kind, high.kind)

    def evaluate(properties: Properties) -> bool | None:
        value = operand.value(properties)
        if value is None:
            return None
        result: bool | None = True
        bound = low.value(properties)
        if bound is None:
            result = None
        elif convert_for_low(value) < convert_low(bound):
            return False
        bound = high.value(properties)
        if bound is None:
            return None
        return False if convert_for_high(value) > convert_high(bound) else result

    return evaluate


def _equal(node: Equal) -> Evaluation:
    if isinstance(node.left, Property) and isinstance(node.right, Text):
        return _property_is(node.left.name, node.right.value)
    return _property_with_number("=", node.left, node.right) or _any_equal(
        _operand(node.left), _operand(node.right)
    )


def _property_is(name: str, text: str) -> Evaluation:
    def evaluate(properties: Properties) -> bool | None:
        value = properties.get(name)
        return None if value is None else value == text

    return evaluate


def _any_equal(left: Operand, right: Operand) -> Evaluation:
    compare = _equality(left.kind, right.kind)

    def evaluate(properties: Properties) -> bool | None:
        first, second = left.value(properties), right.value(properties)
        # Not as in SQL: two nulls are equal, and a null is treated by the side it stands on.
        if first is None:
            return True if second is None else None
        return False if second is None else compare(first, second)

    return evaluate


def _equality(left: Kind, right: Kind) -> Comparison:
    """Chooses how two values of these kinds are compared (`ComparisonExpression.__compare`)."""
    if left is right:
        return operator.eq
    if Kind.BOOLEAN not in (left, right):
        convert_left, convert_right = _number_conversions(left, right)
        return lambda first, second: bool(convert_left(first) == convert_right(second))
    if left in _TEXTS:
        return lambda first, second: conversions.truth(first) is second
    return _fail if right in _TEXTS else _differ


def _fail(first: Any, second: Any) -> NoReturn:
    # RocketMQ casts the left boolean to a string where it means the right string.
    raise Incomparable


def _differ(first: Any, second: Any) -> bool:
    return False


def _is_null(node: IsNull) -> Evaluation:
    operand = _operand(node.operand)
    return lambda properties: operand.value(properties) is None


def _in(node: In) -> Evaluation:
    name, values = node.operand.name, frozenset(node.values)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else text in values

    return evaluate


_MATCHES: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": str.__contains__,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


def _text_match(node: TextMatch) -> Evaluation:
    operand, part, negated = _operand(node.operand), node.part, node.negated
    match = _MATCHES[node.operator]
    if not part:
        return lambda properties: False  # the operand is not even evaluated

    def evaluate(properties: Properties) -> bool | None:
        text = operand.value(properties)
        # Whatever is no string, null too, is false with NOT and without.
        return isinstance(text, str) and match(text, part) is not negated

    return evaluate


_COMPILERS: dict[type, Callable[[Any], Evaluation]] = {
    Property: _property,
    Truth: _constant,
    Null: _null,
    Not: _not,
    And: _and,
    Or: _or,
    Order: _order,
    Between: _between,
    Equal: _equal,
    IsNull: _is_null,
    In: _in,
    TextMatch: _text_match,
}
