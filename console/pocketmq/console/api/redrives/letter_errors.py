"""Sorts dead letters by the error of their last attempt."""

from __future__ import annotations

import re

from pocketmq.console.api.finding.conditions import Condition
from pocketmq.console.api.redrives.letter_bodies import LetterError
from pocketmq.console.api.redrives.letter_conditions import error_of
from pocketmq.protocol.messages.message import Message, ReceivedMessage

KINDS_MAX = 1000
"""Errors that are told apart."""

SHOWN_MAX = 50
"""Errors in one answer."""

TEXT_MAX = 400
"""Characters of an error that are looked at."""

_NUMBER = re.compile(r"\b[0-9a-fA-F-]*[0-9][0-9a-fA-F-]*")
"""A number, or an id of hexadecimal digits: what differs between errors of one cause."""


def kind_of(error: str) -> tuple[str, str]:
    """An error without its numbers and ids, and the longest text between them."""
    cut = error[:TEXT_MAX]
    return _NUMBER.sub("#", cut), max(_NUMBER.split(cut), key=len).strip()


class ErrorCounts:
    """Counts dead letters by error; a condition that no message fits, so that a look goes on.

    Args:
        condition: which dead letters count.
    """

    def __init__(self, condition: Condition) -> None:
        self._condition = condition
        self._kinds: dict[str, LetterError] = {}
        self._others = 0

    async def fits(self, message: Message) -> bool:
        """Counts a message."""
        assert isinstance(message, ReceivedMessage)
        if await self._condition.fits(message):
            self._count(message)
        return False

    def _count(self, message: ReceivedMessage) -> None:
        error, contains = kind_of(error_of(message) or "")
        stored_ms = message.store_timestamp
        kind = self._kinds.get(error)
        if kind is None:
            if len(self._kinds) >= KINDS_MAX:
                self._others += 1
                return
            kind = self._kinds[error] = LetterError(
                error=error,
                contains=contains,
                count=0,
                oldest_ms=stored_ms,
                newest_ms=0,
                example="",
            )
        kind.count += 1
        kind.oldest_ms = min(kind.oldest_ms, stored_ms)
        if stored_ms >= kind.newest_ms:
            kind.newest_ms = stored_ms
            kind.example = f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"

    @property
    def most(self) -> list[LetterError]:
        """The most frequent ones."""
        return sorted(self._kinds.values(), key=lambda kind: -kind.count)[:SHOWN_MAX]

    @property
    def others(self) -> int:
        """Dead letters with further errors."""
        return (
            self._others
            + sum(k.count for k in self._kinds.values())
            - sum(kind.count for kind in self.most)
        )
