"""Consumers about messages that they did not handle, and about their queues: 36, 41, 42."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class ConsumerSendMsgBackRequest(RequestHeader, kw_only=True):
    """A group wants a message again later, or never again.

    Attributes:
        offset: the message's physical offset in the broker's store.
        group: the consumer group.
        delay_level: 1 to 18; 0 lets the broker choose by the number of attempts, a negative one
            means the dead-letter topic at once.
        origin_msg_id: the message's id.
        origin_topic: the topic that it was first sent to.
        max_reconsume_times: after so many repetitions it goes to the dead-letter topic.
        broker_name: of the broker that is asked.
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


class LockBatchRequest(RequestHeader, kw_only=True):
    """A member of a group wants queues for itself, or renews that; the queues are in the body."""

    code: ClassVar[RequestCode] = RequestCode.LOCK_BATCH_MQ


class UnlockBatchRequest(RequestHeader, kw_only=True):
    """A member of a group gives queues back; they are in the body."""

    code: ClassVar[RequestCode] = RequestCode.UNLOCK_BATCH_MQ
