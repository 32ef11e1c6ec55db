"""Where a message stands for a group, and the causes: stable words for people and programs."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    """Where a message stands for a group."""

    NOT_FOUND = "not-found"
    """No message is found under the id."""

    REMOVED = "removed"
    """Retention removed it."""

    HALF = "half"
    """It is a half message, which no consumer sees before its transaction is committed."""

    DELAYED = "delayed"
    """It is not in its topic yet: it is to be delivered later."""

    CONSUMED = "consumed"
    """The group is past it."""

    FILTERED = "filtered"
    """The group's subscription does not take it."""

    DEAD_LETTER = "dead-letter"
    """The group gave it up after all retries."""

    RETRY_WAIT = "retry-wait"
    """It failed, and waits for its next attempt."""

    BEING_HANDLED = "being-handled"
    """A member of the group has it."""

    WAITING = "waiting"
    """The group has not come to it; the findings say why."""

    FORBIDDEN = "forbidden"
    """The group may not read it."""

    HIDDEN = "hidden"
    """It is where no consumer looks."""

    BROADCAST = "broadcast"
    """The group broadcasts: each member has an offset of its own."""

    UNKNOWN = "unknown"
    """Too few servers answered."""


class Cause(StrEnum):
    """What is behind a state."""

    NO_SUCH_MESSAGE = "no such message"
    RETENTION = "retention"
    NOT_SENT_YET = "offset not reached"
    OPEN_TRANSACTION = "open transaction"
    DELAY = "delay"
    OFFSET_PASSED = "offset passed"
    OFFSET_ONLY = "only the offset is known"
    TRACE = "trace"
    STORED_TWICE = "stored more than once"
    FILTER = "filter"
    FAILED = "failed"
    GIVEN_UP = "given up"
    RETRY_DELAY = "retry delay"
    HELD = "held by its owner"
    COMMIT_PENDING = "commit not sent yet"
    BACKLOG = "backlog"
    NO_MEMBER = "no member"
    NOT_SUBSCRIBED = "not subscribed"
    NO_OWNER = "no owner"
    QUEUE_DROPPED = "queue dropped"
    NOT_PULLING = "not pulling"
    FLOW_CONTROL = "flow control"
    NOT_LOCKED = "queue not locked"
    POP = "pop"
    BROADCASTING = "broadcasting"
    SUBSCRIPTIONS_DIFFER = "subscriptions differ"
    CONSUMING_DISABLED = "consuming disabled"
    TOPIC_NOT_READABLE = "topic not readable"
    TOPIC_FORBIDDEN = "topic forbidden to the group"
    QUEUE_NOT_READ = "queue not read"
