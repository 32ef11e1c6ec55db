"""Results of sending and pulling, and answers of listeners."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import msgspec

from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage


class SendStatus(Enum):
    """How safely a message is stored; whatever else happens is an exception."""

    SEND_OK = int(ResponseCode.SUCCESS)
    FLUSH_DISK_TIMEOUT = int(ResponseCode.FLUSH_DISK_TIMEOUT)
    """Stored, but a SYNC_FLUSH broker did not see it on the disk in time."""
    FLUSH_SLAVE_TIMEOUT = int(ResponseCode.FLUSH_SLAVE_TIMEOUT)
    """Stored, but a SYNC_MASTER did not see it on a slave in time."""
    SLAVE_NOT_AVAILABLE = int(ResponseCode.SLAVE_NOT_AVAILABLE)
    """Stored, but a SYNC_MASTER has no slave."""


SEND_STATUS_BY_CODE: dict[int, SendStatus] = {s.value: s for s in SendStatus}


class SendResult(msgspec.Struct, frozen=True):
    """Where a message was stored.

    Attributes:
        status: how safely.
        msg_id: the id that the client gave it (`UNIQ_KEY`); for a batch a comma list.
        offset_msg_id: its address in the broker's store; for a batch a comma list.
        queue: the queue that took it.
        queue_offset: its offset there; for a batch that of the first message.
        transaction_id: of a transactional message.
        region: the broker's region.
        trace_on: whether the broker wants a trace of the message.
        recall_handle: by which a timer message can be called back.
        count: how many messages this was.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region: str | None = None
    recall_handle: str | None = None
    count: int = 1
    trace_on: bool = True


class PullStatus(Enum):
    """The outcome of a pull (`client/impl/consumer/PullAPIWrapper`)."""

    FOUND = int(ResponseCode.SUCCESS)
    NO_NEW_MESSAGE = int(ResponseCode.PULL_NOT_FOUND)
    """The offset is the end of the queue."""
    NO_MATCHED_MESSAGE = int(ResponseCode.PULL_RETRY_IMMEDIATELY)
    """There are messages, but none of those looked at matches the expression."""
    OFFSET_ILLEGAL = int(ResponseCode.PULL_OFFSET_MOVED)
    """The offset lies outside the queue; continue at `next_offset`."""


PULL_STATUS_BY_CODE: dict[int, PullStatus] = {s.value: s for s in PullStatus}


class PullResult(msgspec.Struct, frozen=True):
    """The messages of a pull, and the offset at which to continue.

    Attributes:
        status: what was met.
        messages: in offset order; after the exact check of tags.
        next_offset: where the next pull continues, whatever the status.
        min_offset, max_offset: what the queue held at that moment.
    """

    status: PullStatus
    messages: Sequence[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


class ConsumeResult(Enum):
    """What a listener says of a batch; None counts as success, an exception as `RETRY`."""

    SUCCESS = "success"
    RETRY = "retry"
    """The whole batch comes again; the broker chooses when. The same as ``RetryLater()``."""


class RetryLater(msgspec.Struct, frozen=True):
    """A listener's answer that says when, and from which message on, a batch comes again::

        return RetryLater(delay_level=5)           # all of it, in a minute
        return RetryLater(ack_index=handled - 1)   # what follows the first `handled` messages

    Attributes:
        delay_level: 1 to 18, of RocketMQ's ladder (1 s, 5 s, 10 s, 30 s, 1 min, … 2 h); 0 lets
            the broker choose by the number of attempts so far; a negative one sends the messages
            to the dead-letter topic at once.
        ack_index: the position in the batch of the last message that was handled; -1 for none.
    """

    delay_level: int = 0
    ack_index: int = -1


RETRY_ALL = RetryLater()


class OrderlyResult(Enum):
    """What an orderly listener says of a batch (`ConsumeOrderlyStatus`).

    None counts as success, an exception as `SUSPEND`.
    """

    SUCCESS = "success"
    """Handled; with ``auto_commit=False`` not committed yet."""
    COMMIT = "commit"
    """Handled, and committed with all before it."""
    SUSPEND = "suspend"
    """The batch comes again, before anything else of its queue, after a pause."""
    ROLLBACK = "rollback"
    """All that was handled since the last commit comes again, and this batch, after a pause."""


class SuspendQueue(msgspec.Struct, frozen=True):
    """An orderly listener's answer that says how long its queue rests before the batch comes again.

    Attributes:
        suspend_ms: the pause, 10 ms to 30 s; -1 for suspend_current_queue_time_ms.
        is_rollback: all that was handled since the last commit comes again too.
    """

    suspend_ms: int = -1
    is_rollback: bool = False


ListenerAnswer = ConsumeResult | RetryLater | OrderlyResult | SuspendQueue
"""What a listener may answer; None is success as well, and anything else counts as an exception.

A ``False`` or ``"RECONSUME_LATER"`` that passed for success would lose messages in silence.
"""
