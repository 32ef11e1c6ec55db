"""The operation that follows a topic."""

from __future__ import annotations

from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.tails.bodies import Followed, TailBatch, TailQuery
from pocketmq.console.api.tails.tail import Tail, Wanted
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import ProblemError, not_found
from pocketmq.console.web.streams import EVENTS, Stream
from pocketmq.runtime.clock import Clock

TAILS_MAX = 16
"""Tails of one console at a time."""


class TailCalls:
    """Begins tails, and knows those that go on.

    Args:
        callers: their clients.
        clock: the source of time.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers, self._clock = callers, clock.machine
        self._tails: set[Tail] = set()

    @property
    def count(self) -> int:
        """How many tails go on."""
        return len(self._tails)

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", f"{PREFIX}/topics/{{topic}}/tail", "tail",
                "The new messages of a topic as they come, as server-sent events; each event tells "
                "how many more have come and are not shown.",
                self._callers.stream(self.tail), TailBatch, query=TailQuery, media=EVENTS,
            ),
        ]  # fmt: skip

    async def tail(self, clients: Clients, call: Call) -> Stream:
        """Begins a tail."""
        topic, query = call.path["topic"], call.query
        assert isinstance(query, TailQuery)
        wanted = Wanted.by(query, bodies=self._callers.shows_bodies)
        if len(self._tails) >= TAILS_MAX:
            raise ProblemError(
                503,
                "Too many tails",
                f"{TAILS_MAX} tails go on, which is the limit of this console",
                "end one of them, or browse the messages",
            )
        tail = Tail(clients, topic, wanted, query.seconds, self._clock)
        self._tails.add(tail)
        try:
            await tail.begin(query.cursor)
        except UnknownTopicError as e:
            self._tails.discard(tail)
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
        except BaseException:
            self._tails.discard(tail)
            raise
        return Stream(tail.events(), self._clock, [lambda: self._tails.discard(tail)])

    async def announced(self, clients: Clients, call: Call) -> Followed:
        """Tells what a page has to know before it begins a tail."""
        topic, query = call.path["topic"], call.query
        assert isinstance(query, TailQuery)
        shows_bodies = self._callers.shows_bodies
        Wanted.by(query, bodies=shows_bodies)
        try:
            await clients.admin.topic_route(topic)
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
        return Followed(topic=topic, shows_bodies=shows_bodies)

    def stop(self) -> None:
        """Ends all tails; their last events say so."""
        for tail in self._tails:
            tail.stop()
