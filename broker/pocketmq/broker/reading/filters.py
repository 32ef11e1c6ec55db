"""Which messages a pull takes: filters of subscriptions, with the protocol's codes for bad ones."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from pocketmq.protocol.bodies.clients import SQL92
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import UsageError, response_error
from pocketmq.protocol.filters import Expression, FilterSyntaxError, compile_filter
from pocketmq.protocol.messages.records import record_properties


class Selection(NamedTuple):
    """What a queue log looks at: tags codes, which its index holds, or whole records.

    With neither, every message is taken.
    """

    tags_codes: Collection[int] | None = None
    matches: Callable[[bytes], bool] | None = None


EVERYTHING = Selection()


def selection_of(expression_type: str | None, text: str, *, sql_enabled: bool) -> Selection:
    """What a subscription selects.

    Args:
        expression_type: TAG or SQL92; None and the empty string stand for TAG.
        text: the expression.
        sql_enabled: whether SQL92 is allowed (enablePropertyFilter).

    Raises:
        SubscriptionError: the expression is no SQL92 (23).
        ResponseError: there is no such type, or it is switched off (1).
    """
    if expression_type == SQL92 and not sql_enabled:
        raise response_error(
            ResponseCode.SYSTEM_ERROR,
            "the broker does not support consumer to filter message by SQL92: its "
            "enablePropertyFilter is off",
        )
    try:
        chosen = compile_filter(expression_type, text)
    except FilterSyntaxError as e:
        raise response_error(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(e)) from e
    except UsageError as e:
        raise response_error(ResponseCode.SYSTEM_ERROR, str(e)) from e
    if isinstance(chosen, Expression):
        return Selection(None, _matching(chosen))
    return EVERYTHING if chosen is None else Selection(chosen)


def _matching(expression: Expression) -> Callable[[bytes], bool]:
    def matches(record: bytes) -> bool:
        return expression.matches(record_properties(record))

    return matches
