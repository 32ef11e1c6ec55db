"""Bodies about live tails."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from pocketmq.console.web.bodies import RequestBody, ResponseBody

SHOWN_MAX = 50
"""Messages of one batch."""

DURATION_S, DURATION_S_MAX = 600.0, 3600.0
"""For how long a tail goes on, unless the request says otherwise, and at the most."""


class TailQuery(RequestBody):
    """Which new messages are wanted.

    Attributes:
        tag: only messages with this tag.
        where: a condition of SQL92 over the properties, where the brokers evaluate such ones.
        cursor: goes on where the batch that gave it as `cursor` has stopped; by default behind the
            newest messages.
        limit: messages of one batch, at most.
        seconds: for how long the tail goes on.
    """

    tag: str | None = None
    where: str | None = None
    cursor: str | None = None
    limit: Annotated[int, Meta(ge=1, le=SHOWN_MAX)] = SHOWN_MAX
    seconds: Annotated[float, Meta(gt=0, le=DURATION_S_MAX)] = DURATION_S


class TailMessage(ResponseBody):
    """A new message.

    Attributes:
        msg_id: the id that the sending client gave.
        keys: business keys, cut where they are long.
        size: bytes of the body.
        body: the beginning of the body as text; null if it is no UTF-8, or is not to be shown.
        is_cut: whether the body goes on.
    """

    broker: str
    queue: int
    offset: int
    msg_id: str | None
    stored_ms: int
    keys: str
    tag: str | None
    size: int
    body: str | None
    is_cut: bool


class Followed(ResponseBody):
    """A topic that can be followed.

    Attributes:
        shows_bodies: whether the console shows bodies of messages.
    """

    topic: str
    shows_bodies: bool


Ended = Literal["time", "topic", "refused", "stop"]


class TailBatch(ResponseBody):
    """What has come since the batch before: ``arrived = messages + notShown + notFitting``.

    Attributes:
        messages: of the newest ones, in the order of their store times.
        arrived: how many have come, by the offsets of the queues.
        not_shown: those that were passed over without a look.
        not_fitting: those that were looked at and are not wanted.
        cursor: goes on behind this batch in another request; null of topics with many queues.
        problems: brokers that could not be asked, and why; their messages count when they can.
        ended: null while the tail goes on; else its ``time`` is over, the ``topic`` is gone, a
            broker has ``refused``, or the server has to ``stop``.
        why: the same in a sentence.
    """

    messages: list[TailMessage]
    arrived: int = 0
    not_shown: int = 0
    not_fitting: int = 0
    cursor: str | None = None
    problems: list[str] = field(default_factory=list)
    ended: Ended | None = None
    why: str | None = None
