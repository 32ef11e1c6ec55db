"""Bodies about dead letters and their redrives (PocketMQ's own): 31040 to 31045."""

from __future__ import annotations

from enum import StrEnum

from msgspec import field

from pocketmq.protocol.bodies import Body

TO_GROUP = ""
"""The target of a redrive that only the group which failed sees."""

TO_ORIGIN = "*"
"""The target of a redrive that sends each dead letter to the topic that it was first sent to."""

REDRIVES_MAX_DEFAULT = 3
"""So often a dead letter is sent again, unless the order says otherwise."""

RATE_DEFAULT = 500.0
"""Messages a second that a redrive sends, unless the order says otherwise."""


class LetterState(StrEnum):
    """What became of a dead letter."""

    OPEN = "open"
    REDRIVEN = "redriven"
    DISCARDED = "discarded"


class RedriveAction(StrEnum):
    """What an order does with the dead letters that it selects."""

    REDRIVE = "redrive"
    """Sends them again; they stay where they are, marked as redriven."""
    DISCARD = "discard"
    """Marks them as discarded; they stay until retention removes them."""
    REOPEN = "reopen"
    """Takes the marks away again."""


class RedriveState(StrEnum):
    """What a redrive does at the moment."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"

    @property
    def is_active(self) -> bool:
        """Whether the redrive may still send messages."""
        return self in (RedriveState.RUNNING, RedriveState.PAUSED)


class RedriveChange(StrEnum):
    """What may be done to a redrive that is under way."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"


class Outcome(StrEnum):
    """What became of one dead letter in a redrive."""

    SENT = "sent"
    DISCARDED = "discarded"
    REOPENED = "reopened"
    REFUSED = "refused"
    """It could not be sent, and would not be the next time: the reason says why."""


class LetterSelection(Body, kw_only=True):
    """Which dead letters of a group; what is not given does not restrict.

    Attributes:
        message_ids: unique keys or offset ids, of the dead letter or of the first message.
        queue_id: of the dead-letter topic; None for all queues.
        from_offset, to_offset: within a queue; the last one is not included.
        since_ms, until_ms: when they became dead letters; the end is not included.
        topic: the topic that they were first sent to.
        key: one of their keys.
        tags: ``TagA || TagB``.
        where: a SQL92 condition over their properties.
        error: a text within the error of the last attempt.
        attempts_min: attempts that the group has made at the least.
        states: what became of them before.
    """

    message_ids: list[str] = field(default_factory=list)
    queue_id: int | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    topic: str | None = None
    key: str | None = None
    tags: str | None = None
    where: str | None = None
    error: str | None = None
    attempts_min: int | None = None
    states: list[LetterState] = field(default_factory=lambda: [LetterState.OPEN])


class LetterEdit(Body, kw_only=True):
    """How dead letters are changed when they are sent again; the dead letter stays as it is.

    Attributes:
        body: replaces the body, as text.
        body_base64: replaces the body, as bytes in base64.
        merge_patch: the text of a JSON object that changes the body, which must be JSON (RFC 7396).
        properties: set anew.
        removed_properties: taken away.
        tags, keys: replace the tag and the keys; empty to take them away.
    """

    body: str | None = None
    body_base64: str | None = None
    merge_patch: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    removed_properties: list[str] = field(default_factory=list)
    tags: str | None = None
    keys: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is changed."""
        changes = (self.body, self.body_base64, self.merge_patch, self.tags, self.keys)
        properties = self.properties or self.removed_properties
        return all(change is None for change in changes) and not properties


class RedriveOrder(Body, kw_only=True):
    """What is to be done with some dead letters of a group.

    Attributes:
        group: the group that failed.
        action: what to do.
        selection: which of its dead letters.
        to: the target: `TO_GROUP`, `TO_ORIGIN`, or the name of a topic.
        edit: how they are changed.
        rate: messages a second at most; 0 for no limit.
        failures_max: so many refused messages pause the redrive; 0 for no limit.
        redrives_max: a dead letter that was sent again so often is refused.
        reason: why, for the audit and for others.
    """

    group: str
    action: RedriveAction = RedriveAction.REDRIVE
    selection: LetterSelection = field(default_factory=LetterSelection)
    to: str = TO_GROUP
    edit: LetterEdit = field(default_factory=LetterEdit)
    rate: float = RATE_DEFAULT
    failures_max: int = 0
    redrives_max: int = REDRIVES_MAX_DEFAULT
    reason: str = ""


class LetterSample(Body, kw_only=True):
    """One dead letter as it is, and as it would be sent.

    Attributes:
        queue_id, offset: where the dead letter is.
        message_id: its unique key, or its offset id.
        stored_ms: when it became a dead letter.
        state: what became of it before.
        attempts: how often its group has tried.
        origin: the topic that it was first sent to; empty if it does not say so.
        error: of the last attempt; empty if nobody has told it.
        topic: where it would go; empty if nowhere.
        before, after: its body, as text, cut.
        properties_before, properties_after: its properties.
        refused: why it would not be sent; empty if it would.
    """

    queue_id: int
    offset: int
    message_id: str
    stored_ms: int = 0
    state: LetterState = LetterState.OPEN
    attempts: int = 0
    origin: str = ""
    error: str = ""
    topic: str = ""
    before: str = ""
    after: str = ""
    properties_before: dict[str, str] = field(default_factory=dict)
    properties_after: dict[str, str] = field(default_factory=dict)
    refused: str = ""


class RedrivePlan(Body, kw_only=True):
    """What an order would do on one broker; a redrive is started with its plan.

    Attributes:
        broker_name: of the broker.
        order: what was asked for.
        plan_id: stands for the selected messages.
        ends: up to where each queue was looked at, by queue id.
        count: messages that are selected.
        scanned: messages that were looked at.
        bytes: of the selected ones.
        oldest_ms, newest_ms: when the selected ones became dead letters; 0 without one.
        targets: how many go to which topic.
        refused: how many would be refused, by reason.
        errors: how many have failed with which error the last time.
        samples: the first few of them.
        warnings: what the caller should know.
        estimate_s: seconds that it takes at the order's rate.
    """

    broker_name: str
    order: RedriveOrder
    plan_id: str
    ends: dict[str, int]
    count: int
    scanned: int
    bytes: int
    oldest_ms: int = 0
    newest_ms: int = 0
    targets: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    samples: list[LetterSample] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    estimate_s: float = 0.0


class RedriveStart(Body, kw_only=True):
    """Starts a redrive as it was planned.

    Attributes:
        redrive_id: names the redrive on all its brokers.
        order, plan_id, ends: of the plan.
    """

    redrive_id: str
    order: RedriveOrder
    plan_id: str
    ends: dict[str, int]


class Redrive(Body, kw_only=True):
    """A redrive of one group on one broker.

    Attributes:
        redrive_id: its name.
        broker_name: of the broker.
        order: what is to be done.
        state: what it does at the moment.
        why: why it is paused, held up or has failed; empty if it is not.
        planned: messages that were selected.
        sent, discarded, reopened, refused: messages that are done, by outcome.
        created_ms, ended_ms: when it began and ended; 0 if it has not ended.
        results_from: where the results begin in the topic of results.
    """

    redrive_id: str
    broker_name: str
    order: RedriveOrder
    state: RedriveState
    why: str = ""
    planned: int = 0
    sent: int = 0
    discarded: int = 0
    reopened: int = 0
    refused: int = 0
    created_ms: int = 0
    ended_ms: int = 0
    results_from: int = 0

    @property
    def done(self) -> int:
        """Messages that are done, whatever became of them."""
        return self.sent + self.discarded + self.reopened + self.refused


class RedriveList(Body, kw_only=True):
    """The redrives of a broker, the newest first."""

    redrives: list[Redrive] = field(default_factory=list)


class LetterResult(Body, kw_only=True):
    """What became of one dead letter in a redrive.

    Attributes:
        queue_id, offset: where the dead letter is.
        message_id: its unique key, or its offset id.
        outcome: what became of it.
        topic, to_queue_id, to_offset: where it was sent to; empty and -1 if it was not.
        reason: why it was refused; empty if it was not.
        time_ms: when.
    """

    queue_id: int
    offset: int
    message_id: str
    outcome: Outcome
    topic: str = ""
    to_queue_id: int = -1
    to_offset: int = -1
    reason: str = ""
    time_ms: int = 0


class ResultRecord(Body, kw_only=True):
    """Some results of a redrive, as one message of the topic of results."""

    redrive_id: str
    results: list[LetterResult] = field(default_factory=list)


class ResultPage(Body, kw_only=True):
    """Some results of a redrive.

    Attributes:
        results: in the order in which they came; the last one of a message counts.
        next: where the next page begins; -1 if there is none.
    """

    results: list[LetterResult] = field(default_factory=list)
    next: int = -1


class LetterCounts(Body, kw_only=True):
    """The dead letters of a group on one broker.

    Attributes:
        group: the group that failed.
        open, redriven, discarded: how many, by what became of them.
        oldest_ms, newest_ms: when the first and the last of them became dead letters.
        states: with a range of offsets, what became of each, in order.
        first: the offset of the first of `states`.
    """

    group: str
    open: int = 0
    redriven: int = 0
    discarded: int = 0
    oldest_ms: int = 0
    newest_ms: int = 0
    states: list[LetterState] = field(default_factory=list)
    first: int = 0


class LetterTable(Body, kw_only=True):
    """The dead letters of all groups of a broker that have some."""

    groups: list[LetterCounts] = field(default_factory=list)
