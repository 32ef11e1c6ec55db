"""Bodies of orders to redrive dead letters, their plans, progress and results."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, field

from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody
from pocketmq.protocol.bodies.redrives import (
    RATE_DEFAULT,
    REDRIVES_MAX_DEFAULT,
    LetterState,
    Outcome,
    RedriveAction,
    RedriveState,
)

IDS_MAX = 10_000
"""Message ids that an order may name."""


RESULTS_MAX = 1000
"""Results that a request may ask for."""


class LetterChoice(RequestBody):
    """Which dead letters of the group; what is not given does not restrict.

    Attributes:
        ids: ids of clients or of addresses, of the dead letters or of the first messages.
        queue: number of a queue of the dead-letter topic, on each broker.
        from_offset, to_offset: within a queue; the last one is not included.
        since_ms, until_ms: when they became dead letters; the end is not included.
        topic: that they were first sent to.
        key: one of their keys.
        tags: ``TagA || TagB``.
        where: a condition of SQL92 over their properties.
        error: a text within the error of the last attempt.
        attempts_min: attempts that the group has made at the least.
        states: what became of them before.
    """

    ids: Annotated[list[str], Meta(max_length=IDS_MAX)] = field(default_factory=list)
    queue: Count | None = None
    from_offset: Count | None = None
    to_offset: Count | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    topic: str | None = None
    key: str | None = None
    tags: str | None = None
    where: str | None = None
    error: str | None = None
    attempts_min: Count | None = None
    states: list[LetterState] = field(default_factory=lambda: [LetterState.OPEN])


class LetterChange(RequestBody):
    """How the copies differ from the dead letters, which stay as they are.

    Attributes:
        body: replaces the body, as text.
        body_base64: replaces the body, as bytes.
        merge_patch: changes a body of JSON (RFC 7396).
        properties: set anew.
        removed_properties: taken away.
        tags, keys: replace the tag and the keys; empty to take them away.
    """

    body: str | None = None
    body_base64: str | None = None
    merge_patch: dict[str, Any] | None = None
    properties: dict[str, str] = field(default_factory=dict)
    removed_properties: list[str] = field(default_factory=list)
    tags: str | None = None
    keys: str | None = None


class Order(RequestBody):
    """What is to be done with dead letters.

    Attributes:
        action: ``redrive`` sends them again, ``discard`` only marks them, ``reopen`` takes the
            marks away.
        to: where they are sent: empty for the group that failed alone, ``*`` for the topic of each
            one, or the name of a topic; all groups of a topic get what is sent there.
        rate: messages a second that each broker sends at the most; 0 for no limit.
        failures_max: so many refused messages pause the redrive; 0 for no limit.
        redrives_max: a message that was sent again so often is refused; 0 for no limit.
        reason: why.
    """

    action: RedriveAction = RedriveAction.REDRIVE
    selection: LetterChoice = field(default_factory=LetterChoice)
    to: str = ""
    edit: LetterChange = field(default_factory=LetterChange)
    rate: float = RATE_DEFAULT
    failures_max: int = 0
    redrives_max: int = REDRIVES_MAX_DEFAULT
    reason: str = ""


class PlannedOrder(RequestBody):
    """An order that was planned.

    Attributes:
        order: the same that was planned.
        plan: as the plan says.
    """

    order: Order
    plan: str


class PlannedLetter(ResponseBody):
    """A dead letter as it is, and as it would be sent.

    Attributes:
        topic: where it would go; empty if nowhere.
        before, after: its body as text, cut; null where bodies stay hidden.
        properties_before, properties_after: its properties.
        refused: why it would not be sent; empty if it would.
    """

    broker: str
    queue: int
    offset: int
    msg_id: str
    topic: str
    before: str | None
    after: str | None
    properties_before: dict[str, str]
    properties_after: dict[str, str]
    refused: str


class Plan(PartialBody):
    """What an order would do.

    Attributes:
        plan: stands for the selected dead letters and the order, to start it; empty without any.
        redrive: the id that the redrive would have.
        count: dead letters that are selected.
        scanned: that were looked at.
        bytes: of the selected ones.
        oldest_ms, newest_ms: when the selected ones became dead letters; null without any.
        targets: how many go to which topic.
        refused: how many would be refused, by reason.
        samples: a few of them.
        warnings: what should be known.
        estimate_s: seconds that it takes.
        brokers: how many are selected on which broker.
    """

    plan: str = ""
    redrive: str = ""
    count: int = 0
    scanned: int = 0
    bytes: int = 0
    oldest_ms: int | None = None
    newest_ms: int | None = None
    targets: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    samples: list[PlannedLetter] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    estimate_s: float = 0.0
    brokers: dict[str, int] = field(default_factory=dict)


class BrokerProgress(ResponseBody):
    """How far one broker is.

    Attributes:
        why: why it is paused, held up or has failed; empty if it is not.
        planned: dead letters that were selected.
        sent, discarded, reopened, refused: those that are done, by outcome.
        ended_ms: null while it has not ended.
    """

    broker: str
    state: RedriveState
    why: str
    planned: int
    sent: int
    discarded: int
    reopened: int
    refused: int
    created_ms: int
    ended_ms: int | None


class RedriveProgress(ResponseBody):
    """A redrive, and how far it is on all its brokers together.

    Attributes:
        redrive: the id.
        state: of the brokers, the one that needs most attention.
        is_active: whether it may still do something.
        action, to, rate, reason: of the order.
        is_edited: whether the order changes messages.
        planned, done: dead letters that were selected, and those that are done.
        sent, discarded, reopened, refused: those that are done, by outcome.
        created_ms, ended_ms: when it began and ended; null while it has not ended.
        brokers: how far each of them is.
    """

    redrive: str
    group: str
    state: RedriveState
    is_active: bool
    action: RedriveAction
    to: str
    rate: float
    reason: str
    is_edited: bool
    planned: int
    done: int
    sent: int
    discarded: int
    reopened: int
    refused: int
    created_ms: int
    ended_ms: int | None
    brokers: list[BrokerProgress]


class Redrives(PartialBody):
    """The redrives of a group, the newest first."""

    redrives: list[RedriveProgress]


class OneRedrive(PartialBody):
    """A redrive."""

    redrive: RedriveProgress


class ResultQuery(RequestBody):
    """Which results are wanted.

    Attributes:
        cursor: `next` of the answer before.
        outcome: only those with this outcome.
        limit: so many are enough; the last page of a broker, of up to 1,500, comes whole.
    """

    cursor: str | None = None
    outcome: Outcome | None = None
    limit: Annotated[int, Meta(ge=1, le=RESULTS_MAX)] = 200


class Result(ResponseBody):
    """What became of one dead letter in a redrive.

    Attributes:
        broker, queue, offset: where the dead letter is.
        topic, to_queue, to_offset: where it was sent to; empty and null if it was not.
        reason: why it was refused; empty if it was not.
    """

    broker: str
    queue: int
    offset: int
    msg_id: str
    outcome: Outcome
    topic: str
    to_queue: int | None
    to_offset: int | None
    reason: str
    time_ms: int


class Results(ResponseBody):
    """Some results of a redrive; the last one of a dead letter counts.

    Attributes:
        next: give it as `cursor` to go on; null at the end.
    """

    results: list[Result]
    next: str | None = None
