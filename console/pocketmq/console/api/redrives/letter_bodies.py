"""Bodies about dead letters."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from pocketmq.console.api.bodies.messages import SCANNED_MAX, TIMEOUT_S_MAX, BrowseQuery, Messages
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import RequestBody, ResponseBody
from pocketmq.protocol.messages.message_json import MessageDocument

State = Literal["open", "redriven", "discarded"]


class LetterGroup(ResponseBody):
    """The dead letters of a group.

    Attributes:
        open, redriven, discarded: how many, by what became of them.
        oldest_ms, newest_ms: when the first and the last of them became dead letters; null
            without one.
    """

    group: str
    open: int
    redriven: int
    discarded: int
    oldest_ms: int | None
    newest_ms: int | None


class LetterGroups(PartialBody):
    """All groups with a topic of dead letters, by name."""

    groups: list[LetterGroup]


class LetterQuery(BrowseQuery):
    """Which dead letters of a group are wanted; beside what `browse` knows.

    Attributes:
        start: as of `browse`; by default the newest ones without a condition, and the oldest ones
            that fit with one.
        since, until: when they became dead letters, as times of `start`; the end is not included.
        topic: that they were first sent to.
        error: a text within the error of the last attempt.
        state: what became of them.
    """

    start: str = ""
    since: str | None = None
    until: str | None = None
    topic: str | None = None
    error: str | None = None
    state: State | None = None


class LetterErrorQuery(RequestBody):
    """Of which dead letters the errors are wanted: as `browseDeadLetters`.

    Attributes:
        scan: messages to look at, at most; the newest ones.
        seconds: time that may be taken.
    """

    key: str | None = None
    tag: str | None = None
    where: str | None = None
    decoder: str | None = None
    contains: str | None = None
    since: str | None = None
    until: str | None = None
    topic: str | None = None
    error: str | None = None
    state: State | None = None
    scan: Annotated[int, Meta(ge=1, le=SCANNED_MAX)] = 10_000
    seconds: Annotated[float, Meta(gt=0, le=TIMEOUT_S_MAX)] = 5.0


class DeadLetter(MessageDocument, kw_only=True, rename="camel"):
    """A message that its group has given up on.

    Attributes:
        state: what became of it; null where the brokers do not know.
        last_error: the error of the last attempt (property PQ_LAST_ERROR); null if none was kept.
        origin: the topic that the message was first sent to; null if it does not say so.
    """

    state: State | None = None
    last_error: str | None = None
    origin: str | None = None


class DeadLetters(Messages):
    """Dead letters that were found.

    Attributes:
        messages: the dead letters, as `browse` orders messages.
        unknown_states: why the brokers do not tell what became of them; null if they do.
    """

    messages: list[DeadLetter]  # type: ignore[assignment]
    unknown_states: str | None = None


class LetterError(ResponseBody):
    """Dead letters whose last attempts failed alike.

    Attributes:
        error: the error, with ``#`` in place of numbers and ids; empty if none was kept.
        contains: a text that is in each of these errors, to look for them with.
        count: how many.
        oldest_ms, newest_ms: when the first and the last of them became dead letters.
        example: the place of the newest one, as ``broker-a:0:42``.
    """

    error: str
    contains: str
    count: int
    oldest_ms: int
    newest_ms: int
    example: str


class LetterErrors(PartialBody):
    """Why dead letters have failed, the most frequent error first.

    Attributes:
        errors: some of them.
        others: dead letters with further errors.
        scanned: messages that were looked at, the newest ones.
        left: messages that were not looked at.
    """

    errors: list[LetterError] = field(default_factory=list)
    others: int = 0
    scanned: int = 0
    left: int = 0
