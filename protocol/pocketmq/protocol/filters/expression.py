"""A parsed filter expression, which tells whether a message with given properties passes."""

from __future__ import annotations

from pocketmq.protocol.filters.conversions import Incomparable
from pocketmq.protocol.filters.evaluation import Properties, evaluation_of
from pocketmq.protocol.filters.nodes import Condition, Property, TextMatch, nodes_of
from pocketmq.protocol.filters.parser import parse_node


class Expression:
    """A SQL92 filter. Equal ones have equal conditions; ``str`` is text that parses back to it.

    That text is spaced evenly and may be longer than the one that was parsed: only if it passes
    `TEXT_LENGTH_MAX` does it not parse back.

    Args:
        condition: what the parser made of the text.

    Attributes:
        node_count: how many nodes an evaluation may visit.
        text_search_count: how many of them search a property's text.
    """

    __slots__ = ("_evaluate", "condition", "node_count", "text_search_count")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self._evaluate = evaluation_of(condition)
        nodes = [type(node) for node in nodes_of(condition)]
        self.node_count, self.text_search_count = len(nodes), nodes.count(TextMatch)

    def matches(self, properties: Properties) -> bool:
        """Whether a message with these properties passes.

        False and null do not, nor does a message whose properties do not convert as the
        expression needs it (`ExpressionMessageFilter.isMatchedByCommitLog`).
        """
        try:
            return self._evaluate(properties) is True
        except Incomparable:
            return False

    def evaluate(self, properties: Properties) -> bool | None:
        """Evaluates the condition to true, false or null, which is None.

        Raises:
            Incomparable: a property does not convert; RocketMQ ends the evaluation there.
        """
        return self._evaluate(properties)

    @property
    def names(self) -> frozenset[str]:
        """The names of all properties, and of members of the body, that it looks at."""
        return frozenset(
            node.name for node in nodes_of(self.condition) if isinstance(node, Property)
        )

    def __str__(self) -> str:
        return str(self.condition)

    def __repr__(self) -> str:
        return f"Expression({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self.condition == other.condition

    def __hash__(self) -> int:
        return hash(self.condition)


def parse(text: str, *, strict: bool = False, members: bool = False) -> Expression:
    """Parses a SQL92 filter expression by RocketMQ's grammar.

    Args:
        text: the expression.
        strict: refuse what RocketMQ ignores: all that follows one complete condition. It takes
            ``a like 'x'`` for the condition ``a``, which no message fulfils.
        members: let names have dots, and parts between ``"``: ``body.items.0."unit price" > 10``,
            for callers whose mapping knows such names. Whole and other numbers compare by value.
            Brokers take no such expression.

    Raises:
        FilterSyntaxError: the text is no condition, or passes one of this package's limits.
    """
    return Expression(parse_node(text, strict=strict, members=members))
