"""The answer to the question why a message is not consumed."""

from __future__ import annotations

import msgspec

from pocketmq.client.explanation.states import Cause, State


class Finding(msgspec.Struct, frozen=True):
    """One thing that leads to the state of a message, or that belongs to the answer.

    Attributes:
        cause: what it is.
        seen: the observation.
        remedy: what would change it; empty if nothing has to.
    """

    cause: Cause
    seen: str
    remedy: str = ""


class Facts(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True):
    """What was seen of the message, its queue, and the group there; None for what is unknown.

    Times are milliseconds since the epoch, except for what is named otherwise.

    Attributes:
        topic, broker, queue_id, offset: where the message is, or the copy of it that counts now.
        msg_id: the id that the sender's client gave it.
        offset_msg_id: its place in the broker's store.
        tags: its tag.
        stored_ms: when it was stored there.
        origin: where the message was first stored, if a copy counts now.
        attempt: how often it was sent back for a retry; 0 for the first attempt.
        due_ms: when it will be in its topic, or if it is popped, when others may get it.
        min_offset, max_offset: of the oldest message of the queue, and of the one that comes next.
        committed_offset: where the group continues; None if it never committed here.
        ahead: messages before this one that the group has not finished.
        lag: messages of the queue that the group has not finished.
        waited_ms: how long it has been there, in milliseconds.
        members: connected members of the group.
        subscription: the group's, at the broker.
        owner_id, owner_address: the member that has the queue.
        cached_from, cached_to, cached_count: what the owner has pulled of the queue, and not
            finished.
        owner_pulled_ms, owner_handled_ms: when the owner last began a pull, and last handed out
            messages of the queue.
    """

    topic: str
    broker: str | None = None
    queue_id: int | None = None
    offset: int | None = None
    msg_id: str | None = None
    offset_msg_id: str | None = None
    tags: str | None = None
    stored_ms: int | None = None
    origin: str | None = None
    attempt: int | None = None
    due_ms: int | None = None
    min_offset: int | None = None
    max_offset: int | None = None
    committed_offset: int | None = None
    ahead: int | None = None
    lag: int | None = None
    waited_ms: int | None = None
    members: int | None = None
    subscription: str | None = None
    owner_id: str | None = None
    owner_address: str | None = None
    cached_from: int | None = None
    cached_to: int | None = None
    cached_count: int | None = None
    owner_pulled_ms: int | None = None
    owner_handled_ms: int | None = None


class Explanation(msgspec.Struct, rename="camel", kw_only=True):
    """Why a message is not consumed by a group, or that it is.

    Attributes:
        message: the id or the place that was asked for.
        group: the group.
        state: where the message stands.
        verdict: the same in one sentence.
        findings: what led to it, the decisive one first.
        facts: what was seen.
        unknown: the questions that no server answered, each with the reason.
    """

    message: str
    group: str
    state: State
    verdict: str
    findings: list[Finding]
    facts: Facts
    unknown: list[str]
