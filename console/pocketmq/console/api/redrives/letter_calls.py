"""The operations that show dead letters."""

from __future__ import annotations

from msgspec import structs

from pocketmq.client import MessageQueue
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.messages import BrowseQuery
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.finding.browsing import LATEST, browse
from pocketmq.console.api.finding.messages import message_named, shown
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.redrives.letter_bodies import (
    DeadLetter,
    DeadLetters,
    LetterErrorQuery,
    LetterErrors,
    LetterGroup,
    LetterGroups,
    LetterQuery,
    State,
)
from pocketmq.console.api.redrives.letter_conditions import (
    LetterCondition,
    LetterWish,
    error_of,
    origin_of,
    restricts,
)
from pocketmq.console.api.redrives.letter_errors import ErrorCounts
from pocketmq.console.api.redrives.letter_states import LetterStates, place_of
from pocketmq.console.api.redrives.refusals import worded
from pocketmq.console.decoding.decoders import Decoders
from pocketmq.console.web.operations import Call, Operation
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.names.names import dlq_topic
from pocketmq.runtime.clock import Clock


class LetterCalls:
    """Counts and shows dead letters; nothing is consumed.

    Args:
        callers: their clients.
        clock: bounds the time of a search.
        decoders: of bodies, for conditions.
    """

    def __init__(self, callers: Callers, clock: Clock, decoders: Decoders) -> None:
        self._callers, self._clock, self._decoders = callers, clock, decoders

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        letters = f"{PREFIX}/groups/{{group}}/dead-letters"
        return [
            Operation(
                "GET", f"{PREFIX}/dead-letters", "countDeadLetters",
                "All groups with dead letters, and what became of these.",
                serve(self.counts), LetterGroups,
            ),
            Operation(
                "GET", letters, "browseDeadLetters",
                "Messages that were given up for a group, what became of them, and the errors of "
                "their last attempts; else as `browse`.",
                serve(self.letters), DeadLetters, query=LetterQuery,
            ),
            Operation(
                "GET", f"{letters}/errors", "countLetterErrors",
                "Why messages were given up: the newest ones by the error of the last attempt; "
                "tells how many were looked at.",
                serve(self.errors), LetterErrors, query=LetterErrorQuery,
            ),
        ]  # fmt: skip

    async def counts(self, clients: Clients, _: Call) -> LetterGroups:
        """Counts dead letters."""
        with worded(400, "The request does not fit", "see the detail"):
            found = await clients.admin.dead_letter_counts()
        return LetterGroups(
            groups=[
                LetterGroup(
                    group=each.group,
                    open=each.open,
                    redriven=each.redriven,
                    discarded=each.discarded,
                    oldest_ms=each.oldest_ms or None,
                    newest_ms=each.newest_ms or None,
                )
                for each in found
            ]
        )

    async def letters(self, clients: Clients, call: Call) -> DeadLetters:
        """Looks through a group's dead letters."""
        group, query = call.path["group"], call.query
        assert isinstance(query, LetterQuery)
        states = LetterStates(clients.admin, group)
        condition = self._condition(query, group, states)
        start = query.start or query.since or ("earliest" if restricts(query) else LATEST)
        look = structs.replace(query, start=start)
        try:
            found = await browse(clients.reader, dlq_topic(group), look, condition, self._clock)
        except UnknownTopicError:
            return DeadLetters(messages=[], scanned=0, stopped="end", queues=[])
        known = await states.of_all(map(place_of, found.messages))
        return DeadLetters(
            messages=[self._shown(each, group, known[place_of(each)]) for each in found.messages],
            scanned=found.scanned,
            stopped=found.stopped,
            queues=found.queues,
            next=found.cursor,
            older=found.older,
            undecoded=condition.undecoded,
            unknown_states=states.problem,
        )

    async def one(self, clients: Clients, group: str, name: str) -> DeadLetter:
        """Shows a dead letter.

        Args:
            clients: of the caller.
            group: whose.
            name: an id, or its place.

        Raises:
            ProblemError: 404, there is none.
        """
        message = await message_named(clients, dlq_topic(group), name)
        return self._shown(message, group, None)

    def _condition(self, wish: LetterWish, group: str, states: LetterStates) -> LetterCondition:
        condition = LetterCondition(wish, self._decoders, group, states)
        if condition.reads_bodies:
            self._callers.check_bodies()  # else bodies could be guessed
        return condition

    def _shown(self, message: ReceivedMessage, group: str, state: State | None) -> DeadLetter:
        document = structs.asdict(shown(self._callers, message))
        letter = DeadLetter(
            **document,
            state=state,
            last_error=error_of(message),
            origin=origin_of(message, group),
        )
        letter.offset_msg_id = message.offset_msg_id
        return letter

    async def errors(self, clients: Clients, call: Call) -> LetterErrors:
        """Counts dead letters by error."""
        group, query = call.path["group"], call.query
        assert isinstance(query, LetterErrorQuery)
        topic = dlq_topic(group)
        counts = ErrorCounts(self._condition(query, group, LetterStates(clients.admin, group)))
        try:
            queues = await clients.reader.queues(topic)
            if not queues:
                return LetterErrors()
            # As many of the newest ones of each queue as may be looked at in all.
            limit = max(query.scan // len(queues), 1)
            look = BrowseQuery(start=LATEST, limit=limit, scan=query.scan, seconds=query.seconds)
            found = await browse(clients.reader, topic, look, counts, self._clock)
        except UnknownTopicError:
            return LetterErrors()
        firsts = {queue: await clients.reader.min_offset(queue) for queue in queues}
        left = sum(
            each.left + each.begin - firsts[MessageQueue(topic, each.broker, each.queue)]
            for each in found.queues
        )
        return LetterErrors(
            errors=counts.most, others=counts.others, scanned=found.scanned, left=left
        )
