"""The operations that read what messages contain."""

from __future__ import annotations

from pocketmq.client.admin.messages import QUERY_COUNT_MAX
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.messages import Messages
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.finding.bodies import (
    BodyQuery,
    DecodedBody,
    Difference,
    DifferenceQuery,
    DownloadQuery,
    LookUpQuery,
    MessageView,
)
from pocketmq.console.api.finding.conditions import Condition
from pocketmq.console.api.finding.differences import (
    SHOWN_MAX,
    content,
    differences,
    envelope,
)
from pocketmq.console.api.finding.downloads import Download, check_download
from pocketmq.console.api.finding.messages import message_named, shown
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.decoding.decoders import Decoders
from pocketmq.console.decoding.pointers import at_pointer
from pocketmq.console.decoding.tree import tree_of
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.console.web.streams import Stream
from pocketmq.protocol.errors import UsageError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.message_json import MessageDocument
from pocketmq.runtime.clock import Clock

LINES = "application/jsonl"
"""The media type of JSON lines."""


class FindingCalls:
    """Looks messages up, decodes, downloads and compares them; nothing is consumed.

    Args:
        callers: their clients.
        clock: bounds the time of downloads.
        decoders: of bodies.
    """

    def __init__(self, callers: Callers, clock: Clock, decoders: Decoders) -> None:
        self._callers, self._clock, self._decoders = callers, clock, decoders

    @property
    def decoders(self) -> list[str]:
        """The names of all decoders."""
        return self._decoders.names

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        of_topic = f"{PREFIX}/topics/{{topic}}"
        of_message = f"{of_topic}/messages/{{id}}"
        return [
            Operation(
                "GET", f"{of_topic}/lookup", "lookUp",
                "The newest messages with a key or an id, by the indexes of the brokers: quick in "
                "topics of any size.",
                serve(self.look_up), Messages, query=LookUpQuery,
            ),
            Operation(
                "GET", f"{of_topic}/download", "download",
                "Messages as JSON lines, which `pocketmq produce` reads back. An answer that ends "
                "early breaks off; one with fewer lines than the limit has all that fit.",
                self._callers.stream(self.download), MessageDocument, query=DownloadQuery,
                media=LINES,
            ),
            Operation(
                "GET", f"{of_message}/body", "getBody",
                "The decoded body of a message as a tree, a part at a time.",
                serve(self.body), DecodedBody, query=BodyQuery,
            ),
            Operation(
                "GET", f"{of_message}/difference", "compare",
                "Two messages field by field, their decoded bodies included.",
                serve(self.difference), Difference, query=DifferenceQuery,
            ),
        ]  # fmt: skip

    async def look_up(self, clients: Clients, call: Call) -> Messages:
        """Finds messages by key or id."""
        topic, query = call.path["topic"], call.query
        assert isinstance(query, LookUpQuery)
        admin = clients.admin
        try:
            found = await admin.query_messages(topic, query.key)
            if not found:
                found = await admin.query_messages(topic, query.key, index="unique_key")
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
        found.sort(key=lambda message: (-message.store_timestamp, -message.queue_offset))
        return Messages(
            messages=[shown(self._callers, message) for message in found],
            scanned=len(found),
            stopped="limit" if len(found) >= QUERY_COUNT_MAX else "end",
            queues=[],
        )

    async def download(self, clients: Clients, call: Call) -> Stream:
        """Begins a download."""
        self._callers.check_bodies()
        topic, query = call.path["topic"], call.query
        assert isinstance(query, DownloadQuery)
        check_download(query)
        condition = Condition(query, self._decoders)
        download = Download(clients.reader, topic, query, condition, self._clock)
        try:
            await download.begin()
        except UnknownTopicError as e:
            raise not_found("topic", topic, f"GET {PREFIX}/topics") from e
        return Stream(download.lines(), self._clock)

    async def body(self, clients: Clients, call: Call) -> DecodedBody:
        """Decodes a body."""
        self._callers.check_bodies()
        query = call.query
        assert isinstance(query, BodyQuery)
        message = await message_named(clients, call.path["topic"], call.path["id"])
        return await self._body(message, query)

    async def view(self, clients: Clients, call: Call) -> MessageView:
        """Shows a message with its decoded body, for its page."""
        query = call.query
        assert isinstance(query, BodyQuery)
        message = await message_named(clients, call.path["topic"], call.path["id"])
        body = await self._body(message, query) if self._callers.shows_bodies else None
        return MessageView(message=shown(self._callers, message), body=body)

    async def _body(self, message: ReceivedMessage, query: BodyQuery) -> DecodedBody:
        decoded = await self._decoders.decode(query.decoder, message)
        body = DecodedBody(
            decoder=decoded.decoder,
            decoders=self._decoders.names,
            size=len(message.body),
            problem=decoded.problem,
        )
        if decoded.problem is None:
            try:
                part = at_pointer(decoded.value, query.at)
            except UsageError as e:
                body.problem = str(e)
            else:
                body.value = tree_of(part, query.at, query.begin)
        return body

    async def difference(self, clients: Clients, call: Call) -> Difference:
        """Compares two messages."""
        query = call.query
        assert isinstance(query, DifferenceQuery)
        topic = call.path["topic"]
        here = await message_named(clients, topic, call.path["id"])
        there = await message_named(clients, query.other_topic or topic, query.other)
        fields, is_cut = [envelope(here), envelope(there)], False
        problems = ["this console shows no bodies"]
        if self._callers.shows_bodies:
            both = [await self._decoders.decode(query.decoder, each) for each in (here, there)]
            problems = [each.problem for each in both if each.problem is not None]
            if not problems:
                for of_message, decoded in zip(fields, both, strict=True):
                    members, has_more = content(decoded)
                    of_message.update(members)
                    is_cut |= has_more
        found, same = differences(*fields)
        return Difference(
            here=shown(self._callers, here),
            there=shown(self._callers, there),
            fields=found[:SHOWN_MAX],
            further=max(len(found) - SHOWN_MAX, 0),
            same=same,
            is_cut=is_cut,
            problems=problems,
        )
