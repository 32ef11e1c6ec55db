"""Bodies about creating, changing and deleting groups."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pocketmq.console.web.bodies import Count, RequestBody, ResponseBody

RetryCount = Annotated[int, Meta(ge=-1, le=1_000_000)]
RetryQueueCount = Annotated[int, Meta(ge=0, le=1000)]


class NewGroup(RequestBody):
    """A group to create, on all brokers.

    Attributes:
        may_consume: whether it may consume (consumeEnable).
        may_broadcast: whether its members may broadcast (consumeBroadcastEnable).
        is_orderly: it consumes in order: a note for people and proxies (consumeMessageOrderly).
        retry_max_times: attempts again before a message goes to the dead letters.
        retry_queues: queues of its retry topic on each broker.
    """

    may_consume: bool = True
    may_broadcast: bool = True
    is_orderly: bool = False
    retry_max_times: RetryCount = 16
    retry_queues: RetryQueueCount = 1


class GroupChange(RequestBody):
    """Settings of a group to change; what is left out stays.

    Attributes:
        may_consume, may_broadcast, is_orderly, retry_max_times, retry_queues: as of a new group.
    """

    may_consume: bool | None = None
    may_broadcast: bool | None = None
    is_orderly: bool | None = None
    retry_max_times: RetryCount | None = None
    retry_queues: RetryQueueCount | None = None


class GroupSettings(ResponseBody):
    """The settings of a group on one broker."""

    may_consume: bool
    may_broadcast: bool
    is_orderly: bool
    retry_max_times: int
    retry_queues: int


class GroupSettingsTable(ResponseBody):
    """The settings of a group.

    Attributes:
        brokers: by the names of the brokers that have the group.
    """

    group: str
    brokers: dict[str, GroupSettings]


class LagOfTopic(ResponseBody):
    """How much of a topic a group has not finished."""

    topic: str
    left: int


class GroupDeletion(ResponseBody):
    """What would go with a group: its settings, offsets, retries and dead letters.

    Attributes:
        members: client ids of those connected; where groups are created on first use, they make
            the group anew.
        topics: which it consumes or has consumed.
        dead_letters: messages that were given up.
    """

    group: str
    members: list[str]
    topics: list[LagOfTopic]
    dead_letters: Count


class GroupDeleted(ResponseBody):
    """A group was deleted.

    Attributes:
        dead_letters: that went with it.
    """

    deleted: str
    dead_letters: int
