"""Bodies with entries of a queue's index."""

from __future__ import annotations

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.clients import Subscription


class ConsumeQueueEntry(Body, kw_only=True):
    """One entry of a queue's index (`ConsumeQueueData`).

    Attributes:
        physic_offset, physic_size: where the record is, and its bytes.
        tags_code: by which it is filtered.
        eval: whether a group's filter takes it; only RocketMQ's extended entries know.
        msg: what is wrong with it.
    """

    physic_offset: int = 0
    physic_size: int = 0
    tags_code: int = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class ConsumeQueueEntries(Body, kw_only=True):
    """Neighbouring entries of a queue's index (`QueryConsumeQueueResponseBody`).

    Attributes:
        subscription_data, filter_data: the group's, if one was named.
        max_queue_index, min_queue_index: where the queue ends and begins.
    """

    subscription_data: Subscription | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueEntry] = field(default_factory=list)
    max_queue_index: int = 0
    min_queue_index: int = 0
