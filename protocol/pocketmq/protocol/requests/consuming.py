"""Requests of consumers: messages sent back, and locks of queues: 36, 41, 42."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class ConsumerSendMsgBackRequest(RequestHeader, kw_only=True):
    """Sends a message back: its group gets it again later, or it becomes a dead letter.

    Attributes:
        offset: the message's physical offset in the broker's store.
        group: the consumer group.
        delay_level: 1 to 18; 0 lets the broker choose by the number of attempts, a negative one
            means the dead-letter topic at once.
        origin_msg_id: the message's id.
        origin_topic: the topic that it was first sent to.
        max_reconsume_times: after so many repetitions it goes to the dead-letter topic.
        broker_name: of the broker that is asked.
        last_error: why the consumer could not handle the message (PocketMQ's own field).
    """

    code: ClassVar[RequestCode] = RequestCode.CONSUMER_SEND_MSG_BACK

    offset: int
    group: str
    delay_level: int
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: int | None = None
    broker_name: str | None = field(default=None, name="bname")
    last_error: str | None = None


class LockBatchRequest(RequestHeader, kw_only=True):
    """Locks queues for one member of a group, or renews its locks; the queues are in the body."""

    code: ClassVar[RequestCode] = RequestCode.LOCK_BATCH_MQ


class UnlockBatchRequest(RequestHeader, kw_only=True):
    """Unlocks queues that a member of a group holds; the queues are in the body."""

    code: ClassVar[RequestCode] = RequestCode.UNLOCK_BATCH_MQ
