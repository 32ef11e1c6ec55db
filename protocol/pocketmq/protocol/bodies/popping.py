"""Bodies about popped messages, and about who consumes how: 400 to 402, 200151 and 31060."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import field

from pocketmq.protocol.bodies import Body
from pocketmq.protocol.bodies.topics import QueueKey

PULL, POP = "PULL", "POP"
"""How a group consumes a topic (`MessageRequestMode`)."""


class Assignment(Body, kw_only=True):
    """Asks a broker which queues a member consumes (400, `QueryAssignmentRequestBody`)."""

    topic: str
    consumer_group: str
    client_id: str | None = None
    strategy_name: str | None = None
    message_model: str | None = None


class AssignedQueue(Body, kw_only=True):
    """A queue that a member consumes, and how (`MessageQueueAssignment`)."""

    message_queue: QueueKey
    mode: str = PULL


class AssignedQueues(Body, kw_only=True):
    """The answer to an `Assignment` (`QueryAssignmentResponseBody`)."""

    message_queue_assignments: list[AssignedQueue] = field(default_factory=list)


class RequestMode(Body, kw_only=True):
    """How a group consumes a topic (401, `SetMessageRequestModeRequestBody`).

    Attributes:
        mode: `PULL` or `POP`.
        pop_share_queue_num: of how many others each member pops the queues, too; 0: of all.
    """

    topic: str
    consumer_group: str
    mode: str = PULL
    pop_share_queue_num: int = 0


class RequestModes(Body, kw_only=True):
    """How groups consume topics, by topic and group (402)."""

    message_request_mode_map: dict[str, dict[str, RequestMode]] = field(default_factory=dict)


class BatchAckEntry(Body, kw_only=True):
    """Acknowledges messages of one pop and queue (`BatchAck`).

    Attributes:
        c, t: consumer group and topic.
        r: the origin of `messages.receipts`.
        so: where the read began: bits count from there.
        q, rq: queue id and revive queue.
        pt, it: pop time and invisible time in milliseconds.
        b: which messages, a bit each.
    """

    c: str
    t: str
    r: str = "0"
    so: int = 0
    q: int = 0
    rq: int = 0
    pt: int = 0
    it: int = 0
    b: bytes = b""

    @property
    def offsets(self) -> list[int]:
        """The queue offsets of the messages."""
        return [
            self.so + 8 * index + bit
            for index, byte in enumerate(self.b)
            for bit in range(8)
            if byte >> bit & 1
        ]

    @staticmethod
    def bits(start_offset: int, offsets: Iterable[int]) -> bytes:
        """The bits of queue offsets, the least significant first, as Java's BitSet has them.

        Args:
            start_offset: of which the first bit is.
            offsets: none of them before it.
        """
        number = 0
        for offset in offsets:
            number |= 1 << offset - start_offset
        return number.to_bytes((number.bit_length() + 7) // 8, "little")


class BatchAck(Body, kw_only=True):
    """Acknowledges messages of several pops (200151, `BatchAckMessageRequestBody`)."""

    broker_name: str | None = None
    acks: list[BatchAckEntry] = field(default_factory=list)


class PoppedQueue(Body, kw_only=True):
    """What a group has popped of a queue, and not acknowledged.

    Attributes:
        next_offset: where the next pop reads: messages before it that are not in flight are done,
            or were copied for another attempt.
        count: messages in flight, listed or not.
        offsets, due_ms, pop_ms: of each that is listed: which message, when others may get it, and
            when it was popped or its invisible time last set; in milliseconds since the epoch by
            the broker's clock.
        is_ordered: whether the queue is popped in order, and so blocked until then.
    """

    queue_id: int
    next_offset: int
    count: int = 0
    offsets: list[int] = field(default_factory=list)
    due_ms: list[int] = field(default_factory=list)
    pop_ms: list[int] = field(default_factory=list)
    is_ordered: bool = False


class InFlightTable(Body, kw_only=True):
    """The queues of a topic that a group pops; those that it has never popped are left out."""

    queues: list[PoppedQueue] = field(default_factory=list)
