"""The operations on messages."""

from __future__ import annotations

from pocketmq.client.errors import UnknownTopicError
from pocketmq.client.explanation.explaining import explain
from pocketmq.client.explanation.explanation import Explanation
from pocketmq.client.explanation.states import State
from pocketmq.console.api.bodies.messages import (
    BrowseQuery,
    ExplainQuery,
    Messages,
    SendRequest,
    SentMessages,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.finding.browsing import browse
from pocketmq.console.api.finding.conditions import Condition
from pocketmq.console.api.finding.messages import message_named, shown
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.sending import send_all, sent_of
from pocketmq.console.decoding.decoders import Decoders
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.errors import GroupMissingError
from pocketmq.protocol.messages.message_json import MessageDocument
from pocketmq.runtime.clock import Clock


class MessageCalls:
    """Shows and sends messages; nothing is consumed.

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
        of_topic = f"{PREFIX}/topics/{{topic}}/messages"
        return [
            Operation(
                "GET", of_topic, "browse",
                "Messages of a topic by offset, time, key, tag or content; tells how many were "
                "looked at, and why not more.",
                serve(self.browse), Messages, query=BrowseQuery,
            ),
            Operation(
                "GET", f"{of_topic}/{{id}}", "getMessage",
                "A message by the id of its sender's client, by its address (offset message id), "
                "or by its place, as broker-a:3:42.",
                serve(self.one), MessageDocument,
            ),
            Operation(
                "GET", f"{of_topic}/{{id}}/explanation", "explain",
                "Why a message is not consumed by a group, or that it is, and what would change "
                "it; the id may be a place, as broker-a:3:42.",
                serve(self.explain), Explanation, query=ExplainQuery,
            ),
            Operation(
                "POST", of_topic, "send", "Send messages, one after the other.",
                serve(self.send), SentMessages, body=SendRequest, status=201,
            ),
        ]  # fmt: skip

    async def browse(self, clients: Clients, call: Call) -> Messages:
        """Looks through a topic."""
        topic = call.path["topic"]
        try:
            return await self._browse(clients, call, topic)
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e

    async def _browse(self, clients: Clients, call: Call, topic: str) -> Messages:
        query = call.query
        assert isinstance(query, BrowseQuery)
        condition = Condition(query, self._decoders)
        if condition.reads_bodies:
            self._callers.check_bodies()  # else bodies could be guessed
        found = await browse(clients.reader, topic, query, condition, self._clock)
        return Messages(
            messages=[shown(self._callers, message) for message in found.messages],
            scanned=found.scanned,
            stopped=found.stopped,
            queues=found.queues,
            next=found.cursor,
            older=found.older,
            undecoded=condition.undecoded,
        )

    async def one(self, clients: Clients, call: Call) -> MessageDocument:
        """Shows a message."""
        found = await message_named(clients, call.path["topic"], call.path["id"])
        return shown(self._callers, found)

    async def explain(self, clients: Clients, call: Call) -> Explanation:
        """Says why a message is not consumed."""
        query = call.query
        assert isinstance(query, ExplainQuery)
        topic, message = call.path["topic"], call.path["id"]
        try:
            found = await explain(clients.admin, topic, message, query.group, clock=self._clock)
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
        except GroupMissingError as e:
            raise not_found("group", query.group, f"GET {PREFIX}/groups") from e
        if found.state is State.NOT_FOUND:
            raise not_found("message", message, f"GET {PREFIX}/topics/{topic}/messages")
        return found

    async def send(self, clients: Clients, call: Call) -> SentMessages:
        """Sends messages; checks all of them before the first is sent."""
        self._callers.check_writes()
        topic, request = call.path["topic"], call.body
        assert isinstance(request, SendRequest)
        results = await send_all(clients.producer, topic, request.messages)
        return SentMessages(messages=[sent_of(result) for result in results])
