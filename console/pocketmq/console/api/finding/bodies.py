"""Bodies about what messages contain."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pocketmq.console.decoding.tree import Node
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.protocol.messages.message_json import MessageDocument

DOWNLOADED_MAX = 100_000
"""Messages of one download."""


class BodyQuery(RequestBody):
    """Which part of a body is wanted, and how.

    Attributes:
        decoder: ``json``, ``msgpack``, ``text``, ``hex`` or one of those that are installed; by
            default one that fits the content.
        at: the part, as a JSON pointer such as ``/customer/id``; the whole body by default.
        begin: the first member, character or byte of the part: `next` of the answer before.
    """

    decoder: str | None = None
    at: str = ""
    begin: Count = 0


class DecodedBody(ResponseBody):
    """A part of a body, as much as fits an answer.

    Attributes:
        decoder: that was used.
        decoders: all that there are.
        size: bytes of the body.
        problem: why there is no value; null if there is one.
        value: the part.
    """

    decoder: str
    decoders: list[str]
    size: Count
    problem: str | None = None
    value: Node | None = None


class DifferenceQuery(RequestBody):
    """With which message a message is compared.

    Attributes:
        other: an id or a place of the other message.
        other_topic: its topic; by default the same.
        decoder: for both bodies; by default one that fits each.
    """

    other: str
    other_topic: str | None = None
    decoder: str | None = None


Change = Literal["same", "changed", "only here", "only there"]


class FieldDifference(ResponseBody):
    """A field of two messages.

    Attributes:
        field: its name; of properties and members of bodies with their place.
        here, there: what each message has, cut where it is long; null if it has none.
    """

    field: str
    change: Change
    here: str | None
    there: str | None


class Difference(ResponseBody):
    """Two messages field by field.

    Attributes:
        here, there: the messages, as `GET` shows them.
        fields: that differ, in the order of the first message.
        further: how many differ besides, and are not shown.
        same: how many are the same in both.
        is_cut: whether a body has more members than are compared.
        problems: why the bodies were not compared.
    """

    here: MessageDocument
    there: MessageDocument
    fields: list[FieldDifference]
    further: int
    same: int
    is_cut: bool
    problems: list[str]


class MessageView(ResponseBody):
    """A message with its decoded body.

    Attributes:
        body: null where bodies stay hidden.
    """

    message: MessageDocument
    body: DecodedBody | None


class DownloadQuery(RequestBody):
    """Which messages are wanted; the fields are those of `BrowseQuery`.

    Attributes:
        limit: messages at most. A download with fewer lines has all that fit; of ``latest`` 500 at
            most.
    """

    queue: str | None = None
    start: str = "earliest"
    cursor: str | None = None
    before: str | None = None
    key: str | None = None
    tag: str | None = None
    where: str | None = None
    decoder: str | None = None
    contains: str | None = None
    limit: Annotated[int, Meta(ge=1, le=DOWNLOADED_MAX)] = DOWNLOADED_MAX


class LookUpQuery(RequestBody):
    """What is looked up.

    Attributes:
        key: a key of the messages, or an id of one.
    """

    key: Annotated[str, Meta(min_length=1)]
