"""Which dead letters are wanted."""

from __future__ import annotations

from typing import Protocol

from pocketmq.console.api.finding.browsing import time_ms
from pocketmq.console.api.finding.conditions import Condition, Wish
from pocketmq.console.api.redrives.letter_bodies import State
from pocketmq.console.api.redrives.letter_states import LetterStates, place_of
from pocketmq.console.decoding.decoders import Decoders
from pocketmq.console.web.problems import ProblemError
from pocketmq.protocol.messages import properties as props
from pocketmq.protocol.messages.message import Message, ReceivedMessage
from pocketmq.protocol.names.names import origin_topic


class LetterWish(Wish, Protocol):
    """What a request wants of dead letters."""

    @property
    def since(self) -> str | None: ...  # noqa: D102
    @property
    def until(self) -> str | None: ...  # noqa: D102
    @property
    def topic(self) -> str | None: ...  # noqa: D102
    @property
    def error(self) -> str | None: ...  # noqa: D102
    @property
    def state(self) -> State | None: ...  # noqa: D102


def restricts(wish: LetterWish) -> bool:
    """Whether a request wants only some dead letters."""
    return any((
        wish.key, wish.tag, wish.contains, wish.where, wish.since, wish.until, wish.topic,
        wish.error, wish.state,
    ))  # fmt: skip


def origin_of(message: Message, group: str) -> str | None:
    """The topic that a dead letter was first sent to; None if it does not say so."""
    return origin_topic(group, message.properties)


def error_of(message: Message) -> str | None:
    """The error of the last attempt; None if none was kept."""
    return message.properties.get(props.LAST_ERROR)


class LetterCondition(Condition):
    """Tells whether dead letters are wanted.

    Args:
        wish: what the request says.
        decoders: as of `Condition`.
        group: whose dead letters.
        states: what became of them.

    Raises:
        UsageError: as of `Condition`, or a time is none.
    """

    def __init__(
        self, wish: LetterWish, decoders: Decoders, group: str, states: LetterStates
    ) -> None:
        super().__init__(wish, decoders)
        self._wish, self._group, self._states = wish, group, states
        self._since_ms = None if wish.since is None else time_ms(wish.since, "since")
        self._until_ms = None if wish.until is None else time_ms(wish.until, "until")

    async def fits(self, message: Message) -> bool:
        """Tells whether a dead letter is wanted.

        Raises:
            ProblemError: 501, the brokers do not know what became of it, and the request asks.
        """
        assert isinstance(message, ReceivedMessage)
        wish, stored_ms = self._wish, message.store_timestamp
        if self._since_ms is not None and stored_ms < self._since_ms:
            return False
        if self._until_ms is not None and stored_ms >= self._until_ms:
            return False
        if wish.topic is not None and origin_of(message, self._group) != wish.topic:
            return False
        if wish.error is not None and wish.error not in (error_of(message) or ""):
            return False
        if not await super().fits(message):
            return False
        if wish.state is None:
            return True
        state = await self._states.of(place_of(message))
        if self._states.problem is not None:
            raise ProblemError(
                501,
                "The states of dead letters are not known",
                self._states.problem,
                "leave out state",
            )
        return state == wish.state
