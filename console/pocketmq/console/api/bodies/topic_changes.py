"""Bodies about creating, changing and deleting topics."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from pocketmq.console.web.bodies import RequestBody, ResponseBody

QueueCount = Annotated[int, Meta(ge=1, le=65536)]


class NewTopic(RequestBody):
    """A topic to create.

    Attributes:
        queues: to read and to write, on each broker.
        read_queues, write_queues: where the two counts differ.
        is_readable, is_writable: its permissions.
        order: an order topic.
        attributes: RocketMQ's, such as ``message.type``.
    """

    queues: QueueCount = 8
    read_queues: QueueCount | None = None
    write_queues: QueueCount | None = None
    is_readable: bool = True
    is_writable: bool = True
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


class TopicChange(RequestBody):
    """Settings of a topic to change; what is left out stays.

    To shrink a topic without loss, lower the write queues first, and the read queues when the
    queues are empty.

    Attributes:
        broker: only there; on each broker that has the topic by default.
        attributes: those to set; an empty value removes one.
    """

    broker: str | None = None
    read_queues: QueueCount | None = None
    write_queues: QueueCount | None = None
    is_readable: bool | None = None
    is_writable: bool | None = None
    order: bool | None = None
    attributes: dict[str, str] = field(default_factory=dict)


class AffectedGroup(ResponseBody):
    """A group that a deletion touches.

    Attributes:
        members: that are connected.
        left: messages of the topic that the group has not finished.
    """

    group: str
    members: int
    left: int


class TopicDeletion(ResponseBody):
    """What would go with a topic.

    Attributes:
        newest_ms: when the newest message was stored; null without messages.
        groups: that consume the topic, or have done so: they lose their offsets.
    """

    topic: str
    messages: int
    newest_ms: int | None
    groups: list[AffectedGroup]
