"""What became of dead letters, as their brokers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from pocketmq.client import Admin
from pocketmq.console.api.redrives.letter_bodies import State
from pocketmq.console.api.redrives.refusals import UNKNOWN, is_unknown
from pocketmq.protocol.errors import NoPermissionError, ResponseError
from pocketmq.protocol.messages.message import ReceivedMessage

STATES_PER_REQUEST = 1000
"""States that one request asks for."""

Place = tuple[str, int, int]
"""A broker, a queue and an offset."""

STATES: dict[str, State] = {state: state for state in get_args(State)}


def place_of(message: ReceivedMessage) -> Place:
    """Where a message is."""
    return message.broker_name, message.queue_id, message.queue_offset


class LetterStates:
    """Asks brokers for states, many at a time, and keeps the last answer of each queue.

    Args:
        admin: of the caller.
        group: whose dead letters.

    Attributes:
        problem: why states are not known; None if they are.
    """

    def __init__(self, admin: Admin, group: str) -> None:
        self._admin, self._group = admin, group
        self._kept: dict[tuple[str, int], tuple[int, list[State]]] = {}
        self.problem: str | None = None

    async def of(self, place: Place) -> State | None:
        """What became of one; None if nobody knows."""
        broker, queue, offset = place
        begin, states = self._kept.get((broker, queue), (0, []))
        if not begin <= offset < begin + len(states):
            begin, states = offset, await self._asked(broker, queue, offset)
            self._kept[broker, queue] = begin, states
        return states[offset - begin] if offset - begin < len(states) else None

    async def of_all(self, places: Iterable[Place]) -> dict[Place, State | None]:
        """What became of several."""
        return {place: await self.of(place) for place in sorted(places)}

    async def _asked(self, broker: str, queue: int, offset: int) -> list[State]:
        if self.problem is not None:
            return []
        try:
            found = await self._admin.dead_letter_states(
                self._group, broker, queue, offset, STATES_PER_REQUEST
            )
        except NoPermissionError as e:
            self.problem = str(e)
            return []
        except ResponseError as e:
            if not is_unknown(e):
                raise
            self.problem = UNKNOWN
            return []
        return [STATES[state] for state in found]
