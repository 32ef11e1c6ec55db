"""The nodes of a filter expression; ``str`` of a node is text that parses back to it.

``a <> b``, ``a IS NOT NULL``, ``NOT BETWEEN`` and ``NOT IN`` are the negations of their positive
forms, because RocketMQ evaluates them to the same. The negated text operators are not: on a missing
property both ``a CONTAINS 'x'`` and ``a NOT CONTAINS 'x'`` are false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias, cast

# How tightly the grammar binds, loosest first.
_OR, _AND, _EQUALITY, _COMPARISON, _UNARY, _PRIMARY = range(6)


@dataclass(frozen=True, slots=True)
class Property:
    """The value of a message property: a string, or null where the message has none.

    A name with dots, which only `parse(..., members=True)` gives, is of a member of the body.
    """

    name: str

    def __str__(self) -> str:
        return self.name

    @property
    def is_member(self) -> bool:
        """Whether it is a member of the body, not a property."""
        return "." in self.name


@dataclass(frozen=True, slots=True)
class Integer:
    """A literal without point or exponent, never negative: the sign is a `Negation`."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Double:
    """A literal with point or exponent, above zero and finite."""

    value: float

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal."""

    value: str

    def __str__(self) -> str:
        return _quoted(self.value)


@dataclass(frozen=True, slots=True)
class Truth:
    """TRUE or FALSE."""

    value: bool

    def __str__(self) -> str:
        return "TRUE" if self.value else "FALSE"


@dataclass(frozen=True, slots=True)
class Null:
    """NULL."""

    def __str__(self) -> str:
        return "NULL"


@dataclass(frozen=True, slots=True)
class Negation:
    """``-x``: null unless x is a number literal."""

    operand: Node

    def __str__(self) -> str:
        text = _within(self.operand, _UNARY)
        # Two minus signs in a row would begin a comment.
        return f"- {text}" if text.startswith("-") else f"-{text}"


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT x``: null for null."""

    operand: Condition

    def __str__(self) -> str:
        operand = self.operand
        if isinstance(operand, (Equal, IsNull, Between, In)):
            return operand.render(negated=True)
        return f"NOT {_within(operand, _UNARY)}"


@dataclass(frozen=True, slots=True)
class Equal:
    """``left = right``."""

    left: Node
    right: Node

    def __str__(self) -> str:
        return self.render()

    def render(self, *, negated: bool = False) -> str:
        """Writes the node as text."""
        left, right = _within(self.left, _EQUALITY), _within(self.right, _COMPARISON)
        return f"{left} {'<>' if negated else '='} {right}"


@dataclass(frozen=True, slots=True)
class IsNull:
    """``x IS NULL``."""

    operand: Node

    def __str__(self) -> str:
        return self.render()

    def render(self, *, negated: bool = False) -> str:
        """Writes the node as text."""
        return f"{_within(self.operand, _EQUALITY)} IS {'NOT ' if negated else ''}NULL"


@dataclass(frozen=True, slots=True)
class Order:
    """``left < right`` and its like.

    Attributes:
        operator: ``<``, ``<=``, ``>`` or ``>=``.
    """

    operator: str
    left: Node
    right: Node

    def __str__(self) -> str:
        return f"{_within(self.left, _UNARY)} {self.operator} {_within(self.right, _UNARY)}"


@dataclass(frozen=True, slots=True)
class Between:
    """``x BETWEEN low AND high``, both included."""

    operand: Node
    low: Node
    high: Node

    def __str__(self) -> str:
        return self.render()

    def render(self, *, negated: bool = False) -> str:
        """Writes the node as text."""
        operand, low, high = (_within(x, _UNARY) for x in (self.operand, self.low, self.high))
        return f"{operand} {'NOT ' if negated else ''}BETWEEN {low} AND {high}"


@dataclass(frozen=True, slots=True)
class In:
    """``property IN ('a', 'b')``."""

    operand: Property
    values: tuple[str, ...]

    def __str__(self) -> str:
        return self.render()

    def render(self, *, negated: bool = False) -> str:
        """Writes the node as text."""
        values = ", ".join(_quoted(value) for value in self.values)
        return f"{self.operand} {'NOT ' if negated else ''}IN ({values})"


@dataclass(frozen=True, slots=True)
class TextMatch:
    """``x CONTAINS 'part'`` and its like; never null.

    Attributes:
        operator: CONTAINS, STARTSWITH or ENDSWITH.
        negated: whether NOT stands before the operator.
        operand: what is searched; anything but a string makes it false.
        part: what is searched for; an empty one makes it false.
    """

    operator: str
    negated: bool
    operand: Node
    part: str

    def __str__(self) -> str:
        operand = _within(self.operand, _COMPARISON)
        return f"{operand} {'NOT ' if self.negated else ''}{self.operator} {_quoted(self.part)}"


@dataclass(frozen=True, slots=True)
class And:
    """``a AND b AND c``: two parts or more, none of them an `And`."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " AND ".join(_within(part, _EQUALITY) for part in self.parts)


@dataclass(frozen=True, slots=True)
class Or:
    """``a OR b OR c``: two parts or more, none of them an `Or`."""

    parts: tuple[Condition, ...]

    def __str__(self) -> str:
        return " OR ".join(_within(part, _AND) for part in self.parts)


Condition: TypeAlias = (
    Property | Truth | Null | Not | Equal | IsNull | Order | Between | In | TextMatch | And | Or
)
"""What may stand where true or false is wanted; a property there is false, or null if missing."""
Node: TypeAlias = Condition | Integer | Double | Text | Negation

CONDITIONS = (Property, Truth, Null, Not, Equal, IsNull, Order, Between, In, TextMatch, And, Or)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yields a node and all nodes within it."""
    waiting: list[object] = [node]
    while waiting:
        node = cast("Node", waiting.pop())
        yield node
        for name in node.__slots__:
            value = getattr(node, name)
            waiting += [
                part
                for part in (value if isinstance(value, tuple) else (value,))
                if isinstance(part, _NODES)
            ]


_NODES = (*CONDITIONS, Integer, Double, Text, Negation)
_LEVELS: dict[type, int] = {
    Or: _OR,
    And: _AND,
    Equal: _EQUALITY,
    IsNull: _EQUALITY,
    Order: _COMPARISON,
    Between: _COMPARISON,
    In: _COMPARISON,
    TextMatch: _COMPARISON,
    Not: _UNARY,
    Negation: _UNARY,
}


def _within(node: Node, level: int) -> str:
    """Writes a node as text, in parentheses if it binds too loosely for its surroundings."""
    shape = type(node)
    if isinstance(node, Not) and isinstance(node.operand, (Equal, IsNull, Between, In)):
        shape = type(node.operand)
    return str(node) if _LEVELS.get(shape, _PRIMARY) >= level else f"({node})"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
