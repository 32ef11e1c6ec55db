"""Bodies about where groups stand, and go on."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody

QUEUES_MAX = 10_000
"""Queues whose offsets a request names."""

SAMPLE_MAX = 100
"""Messages that a preview shows."""


class QueueOffset(RequestBody):
    """An offset in a queue.

    Attributes:
        queue: such as ``broker-a:3``.
    """

    queue: str
    offset: Count


QueueOffsets = Annotated[list[QueueOffset], Meta(min_length=1, max_length=QUEUES_MAX)]


class OffsetReset(RequestBody):
    """Where a group goes on in a topic: one of `to`, `offset`, `timestampMs`, `shift`, `offsets`
    and `undo`.

    Attributes:
        queue: only this one, as ``broker-a:3``; all by default.
        offset: the same in each of the queues.
        timestamp_ms: at the first message that was stored then or later.
        shift: so many messages further on, or back if negative, at most to an end of the queue.
        offsets: of each of some queues.
        undo: where the group stood before this change, of `GET …/offsets/changes`, or as near as
            the queues still hold.
        expected: where the group stood in the preview; 409 if it stands elsewhere by now.
        preview: only tell what would be done.
        sample: messages that a preview shows of those that would come again or be passed over.
    """

    topic: str
    queue: str | None = None
    to: Literal["earliest", "latest"] | None = None
    offset: Count | None = None
    timestamp_ms: Count | None = None
    shift: int | None = None
    offsets: QueueOffsets | None = None
    undo: str | None = None
    expected: QueueOffsets | None = None
    preview: bool = False
    sample: Annotated[int, Meta(ge=0, le=SAMPLE_MAX)] = 0


class QueueReset(ResponseBody):
    """A change of a group's offset.

    Attributes:
        messages: that come again, or if negative are passed over; only those that the queue holds.
    """

    broker: str
    queue: int
    before: int
    after: int
    messages: int


class SampledMessage(ResponseBody):
    """A message that would come again or be passed over.

    Attributes:
        comes_again: false if it would be passed over.
    """

    broker: str
    queue: int
    offset: int
    msg_id: str
    store_timestamp: int
    tags: str | None
    keys: list[str]
    comes_again: bool


class Sample(ResponseBody):
    """Some of the messages between the offsets before and after.

    Attributes:
        messages: the first ones of each queue.
        oldest_ms, newest_ms: store times of the oldest and the newest message between the offsets
            of the queues that were looked at; null without messages.
        queues: how many queues were looked at, those with the most messages.
        problem: why no message could be read; null if they could.
    """

    messages: list[SampledMessage] = field(default_factory=list)
    oldest_ms: int | None = None
    newest_ms: int | None = None
    queues: int = 0
    problem: str | None = None


class OffsetResets(ResponseBody):
    """What was done, or would be.

    Attributes:
        again, skipped: messages that come again, and that are passed over.
        sample: of a preview that asked for one.
        change: undoes what was done; null of a preview, or if nothing has changed.
    """

    is_done: bool
    queues: list[QueueReset]
    again: int
    skipped: int
    sample: Sample | None = None
    change: str | None = None


class OffsetChange(ResponseBody):
    """A reset that can be undone.

    Attributes:
        change: the id.
        user: who did it; empty for nobody.
        reason: why, if that was said.
    """

    change: str
    topic: str
    time_ms: int
    user: str
    reason: str | None
    queues: list[QueueReset]


class OffsetChanges(ResponseBody):
    """Resets of this console in the last 24 hours, the newest first."""

    changes: list[OffsetChange]
