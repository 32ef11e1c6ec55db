"""Which messages a pull takes: filters of subscriptions, with the protocol's codes for bad ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from pocketmq.broker.store.log.readable_log import ENTRY_WORK, RUN_WORK, ReadWork
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.bodies.clients import SQL92, SUBSCRIBE_ALL, TAG
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import UsageError, response_error
from pocketmq.protocol.filters import Expression, FilterSyntaxError, compile_filter
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.records import topic_and_properties

TEXT_AT_ONCE_LENGTH_MAX = 1_024
"""Characters of an expression that is parsed in the loop, in up to 8 ms; longer ones in a thread,
one at a time."""

TAGS_CHARACTER_WORK = 2
SQL_CHARACTER_WORK = 75
RECORD_WORK = 60
NODE_WORK = 10
"""The work of parsing a character, of reading a record for a condition, and of a node of the
condition, in the unit of `WorkShare`."""

TEXT_SIZE_OF_WORK = 32
"""Bytes of properties that are decoded, or searched for a text, in a unit of work."""


class Selection(NamedTuple):
    """What a queue log looks at: tags codes, which its index holds, or whole records.

    With neither, every message is taken.

    Attributes:
        tags_codes: those that are taken.
        matches: takes records.
        work: what `matches` has done since it was last taken.
    """

    tags_codes: Collection[int] | None = None
    matches: Callable[[bytes], bool] | None = None
    work: ReadWork | None = None

    def take_work(self, looked_at: int, found: int) -> int:
        """The work of a read, which looked at so many messages; begins a new count."""
        work = looked_at * ENTRY_WORK + found * RUN_WORK
        if self.work is not None:
            work += self.work.done
            self.work.done = 0
        return work


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
        work = ReadWork(text)
        return Selection(None, _matching(chosen, work), work)
    return EVERYTHING if chosen is None else Selection(chosen)


def _matching(expression: Expression, work: ReadWork) -> Callable[[bytes], bool]:
    record_work = RECORD_WORK + NODE_WORK * expression.node_count
    text_readings = 1 + expression.text_search_count

    def matches(record: bytes) -> bool:
        properties = topic_and_properties(record)[1]
        work.done += record_work + text_readings * len(properties) // TEXT_SIZE_OF_WORK
        return expression.matches(props.decode(properties.decode()))

    return matches


class SelectionShare:
    """Makes selections of expressions so that no turn of the loop parses much.

    Args:
        share: of the broker's reads.
    """

    def __init__(self, share: WorkShare) -> None:
        self._share = share
        self._thread = asyncio.Lock()

    def selection_now(
        self, expression_type: str | None, text: str, *, sql_enabled: bool
    ) -> Selection | None:
        """What a subscription selects; None if that must wait for `selection_in_turn`.

        Raises:
            ResponseError: as `selection_of`.
        """
        if text in ("", SUBSCRIBE_ALL) and expression_type in (None, "", TAG):
            return EVERYTHING
        if self._share.left <= 0 or len(text) > TEXT_AT_ONCE_LENGTH_MAX:
            return None
        is_sql = expression_type == SQL92
        self._share.took(len(text) * (SQL_CHARACTER_WORK if is_sql else TAGS_CHARACTER_WORK))
        return selection_of(expression_type, text, sql_enabled=sql_enabled)

    async def selection_in_turn(
        self, expression_type: str | None, text: str, *, sql_enabled: bool
    ) -> Selection:
        """Waits for a turn of the loop, and parses a long expression in a thread.

        Raises:
            ResponseError: as `selection_of`.
        """
        select = partial(selection_of, expression_type, text, sql_enabled=sql_enabled)
        if len(text) > TEXT_AT_ONCE_LENGTH_MAX:
            async with self._thread:
                selection = await asyncio.to_thread(select)
            await self._share.turn()
            return selection
        await self._share.turn()
        return select()
