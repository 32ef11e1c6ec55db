"""Bodies about messages."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.protocol.messages.message_json import MessageDocument

SHOWN_MAX = 500
"""Messages in one answer."""

SCANNED_MAX = 100_000
"""Messages that one request may look at."""

TIMEOUT_S_MAX = 30.0

SENT_MAX = 1000
"""Messages that one request may send."""


class BrowseQuery(RequestBody):
    """Which messages are wanted. Nothing is consumed, and no offset moves.

    Attributes:
        queue: only of this queue, as ``broker-a:3``; of all by default.
        start: ``earliest``, ``latest`` (the newest messages that fit, of the last `limit` of each
            queue; the newest first), an offset of the one queue, ``@`` and a time in milliseconds
            since the epoch, or a time such as ``2026-11-25T10:00``, of UTC unless it says another.
        cursor: goes on where the answer that gave it as `next` has stopped.
        before: of ``latest``, those before the messages of the answer that gave it as `older`.
        key: only messages with this key.
        tag: only messages with this tag.
        where: a condition of SQL92 over the properties, the ``body`` as text, and members of the
            decoded body, as in ``body.items.0.price > 10``.
        decoder: of the bodies for `where`; by default one that fits each body.
        contains: only messages whose body, read as UTF-8, has this text in it.
        limit: messages at most.
        scan: messages to look at, at most.
        seconds: time that may be taken.
    """

    queue: str | None = None
    start: str = "latest"
    cursor: str | None = None
    before: str | None = None
    key: str | None = None
    tag: str | None = None
    where: str | None = None
    decoder: str | None = None
    contains: str | None = None
    limit: Annotated[int, Meta(ge=1, le=SHOWN_MAX)] = 50
    scan: Annotated[int, Meta(ge=1, le=SCANNED_MAX)] = 10_000
    seconds: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] = 5.0


Stop = Literal["end", "limit", "size", "scan", "time"]


class ScannedQueue(ResponseBody):
    """What was looked at of a queue.

    Attributes:
        begin, end: the first offset, and the one behind the last.
        left: messages behind `end`, up to the end of the queue.
    """

    broker: str
    queue: int
    begin: int
    end: int
    left: int


class Messages(PartialBody):
    """Messages that were found.

    Attributes:
        messages: in the order of their store times; of ``latest`` the newest first.
        scanned: messages that were looked at.
        stopped: why not more: the ``end`` of all queues is reached, the ``limit`` of messages, of
            the ``size`` of their bodies, of those to look at (``scan``), or of the ``time``.
        queues: what was looked at.
        next: give it as `cursor` to go on; null at the end.
        older: of ``latest``, give it as `before` for older messages; null if there are none.
        undecoded: messages whose bodies could not be decoded for `where`, and so did not fit.
    """

    messages: list[MessageDocument]
    scanned: int
    stopped: Stop
    queues: list[ScannedQueue]
    next: str | None = None
    older: str | None = None
    undecoded: int = 0


class ExplainQuery(RequestBody):
    """For whom a message is looked at.

    Attributes:
        group: the consumer group.
    """

    group: str


class NewMessage(MessageDocument, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A message to send: one that was shown can be sent again as it is.

    Attributes:
        broker, queue: where to; both or none.
        sharding_key: decides the queue, and names the order.
        delay_level: RocketMQ's, from 1 on; 0 for none.
        delay_ms, deliver_at_ms: how much later it is delivered, or when.
    """

    sharding_key: str | None = None
    delay_level: Count = 0
    delay_ms: Count = 0
    deliver_at_ms: Count = 0


class SendRequest(RequestBody):
    """Messages to send, one after the other."""

    messages: Annotated[list[NewMessage], Meta(min_length=1, max_length=SENT_MAX)]


class Sent(ResponseBody):
    """A message that was sent.

    Attributes:
        status: ``SEND_OK``, or which copy of it is missing.
        recall_handle: calls a delayed message back.
    """

    status: str
    msg_id: str
    broker: str
    queue: int
    offset: int
    recall_handle: str | None = None


class SentMessages(ResponseBody):
    """The messages in the order of the request."""

    messages: list[Sent]
