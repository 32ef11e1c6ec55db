"""Bodies about consumer groups."""

from __future__ import annotations

from pocketmq.console.api.bodies.topics import ListQuery
from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import ResponseBody


class GroupListQuery(ListQuery):
    """What of the list of groups is wanted.

    Attributes:
        built_in: those, too, that each broker has for tools.
    """

    built_in: bool = False


class Groups(PartialBody):
    """Consumer groups by name.

    Attributes:
        total: how many there are that fit, shown or not.
        next: give it as `after` for those that follow; null at the end.
    """

    total: int
    groups: list[str]
    next: str | None = None


class Member(ResponseBody):
    """A member that is connected.

    Attributes:
        version: of the RocketMQ whose protocol it speaks, as its ordinal: 513 is 5.5.0.
    """

    client_id: str
    address: str
    language: str
    version: int


class Subscription(ResponseBody):
    """What a group consumes of a topic.

    Attributes:
        expression: tags, or a condition of SQL92.
        type: ``TAG`` or ``SQL92``.
    """

    topic: str
    expression: str
    type: str


class Conflict(ResponseBody):
    """One of several subscriptions that members of one group have.

    Attributes:
        members: client ids.
    """

    subscription: str
    members: list[str]


class QueueLag(ResponseBody):
    """How far a group is in a queue.

    Attributes:
        committed: the offset at which it goes on.
        end: of the message that comes next.
        left: messages that it has not finished.
        in_flight: pulled and not finished.
        behind_ms: for how long the oldest of those messages has waited, about; null if none waits.
    """

    topic: str
    broker: str
    queue: int
    committed: int
    end: int
    left: int
    in_flight: int
    behind_ms: int | None = None


class Group(PartialBody):
    """A consumer group.

    Attributes:
        may_consume: false where its settings forbid it (consumeEnable).
        model: ``CLUSTERING`` or ``BROADCASTING``; null without members.
        left: messages that it has not finished.
        dead_letters: messages that were given up.
        conflicts: different subscriptions of its members, of which each loses what it is given and
            does not want; empty if they agree.
    """

    name: str
    may_consume: bool
    retry_max_times: int
    model: str | None
    members: list[Member]
    subscriptions: list[Subscription]
    conflicts: list[Conflict]
    left: int
    dead_letters: int
    queues: list[QueueLag]
