"""The request about popped messages that are not acknowledged: 31060."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.requests.popping import ALL_QUEUES
from pocketmq.protocol.wire.header import RequestHeader


class InFlightRequest(RequestHeader, kw_only=True):
    """Asks which messages a group has popped, and until when they are invisible (PocketMQ's own).

    The answer's body is an `InFlightTable`.

    Attributes:
        topic: the real one, perhaps a retry topic.
        queue_id: of one queue, or `ALL_QUEUES`.
        offset: the first one that is wanted, of one queue.
        count: messages at most.
    """

    code: ClassVar[RequestCode] = RequestCode.IN_FLIGHT

    consumer_group: str
    topic: str
    queue_id: int = ALL_QUEUES
    offset: int = 0
    count: int = 1
