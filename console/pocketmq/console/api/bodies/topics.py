"""Bodies about topics."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody

LISTED_MAX = 5000
"""Names in one answer."""

Kind = Literal["normal", "retry", "dead letters", "system"]


class ListQuery(RequestBody):
    """What of a list is wanted.

    Attributes:
        contains: only names with this in them, whatever the case.
        after: only names behind this one, in the order of the list: `next` of the answer before.
        limit: how many at most.
    """

    contains: str = ""
    after: str = ""
    limit: Annotated[int, Meta(ge=1, le=LISTED_MAX)] = 1000


class TopicListQuery(ListQuery):
    """What of the list of topics is wanted.

    Attributes:
        kind: only of this kind; ``all`` for all.
        figures: how much topics hold, too, and how fast messages come and go; then 200 topics are
            listed at the most.
    """

    kind: Kind | Literal["all"] = "normal"
    figures: bool = False


class TopicName(ResponseBody):
    """A topic in the list, with figures if these are asked for.

    Attributes:
        queues: on all brokers.
        messages, size: that the queues hold, and their bytes.
        in_rate, out_rate: messages a second in the last minute.

    Figures are null where a broker does not tell them, or the user may not see them.
    """

    name: str
    kind: Kind
    queues: int | None = None
    messages: int | None = None
    size: int | None = None
    in_rate: float | None = None
    out_rate: float | None = None


class Topics(PartialBody):
    """Topics by name.

    Attributes:
        total: how many there are that fit, shown or not.
        next: give it as `after` for those that follow; null at the end.
    """

    total: int
    topics: list[TopicName]
    next: str | None = None


class Queue(ResponseBody):
    """A queue of a topic.

    Attributes:
        min_offset: of the oldest message.
        max_offset: of the message that comes next.
        last_stored_ms: when the newest message was stored; null when there is none.
    """

    broker: str
    queue: int
    min_offset: int
    max_offset: int
    last_stored_ms: int | None


class Topic(PartialBody):
    """A topic.

    Attributes:
        messages: that its queues hold.
        settings: of each broker that has the topic, by the name of the broker.
        groups: that consume it, or have done so.
        queues: all that exist.
    """

    name: str
    kind: Kind
    messages: int
    settings: dict[str, TopicSettings]
    groups: list[str]
    queues: list[Queue]


class TopicSettings(ResponseBody):
    """The settings of a topic on one broker.

    Attributes:
        is_readable, is_writable: by its permissions.
        attributes: RocketMQ's, such as ``message.type``.
    """

    read_queues: int
    write_queues: int
    is_readable: bool
    is_writable: bool
    order: bool
    attributes: dict[str, str]


class Deleted(ResponseBody):
    """Something was deleted.

    Attributes:
        messages: that went with it.
    """

    deleted: str
    messages: Count = 0
