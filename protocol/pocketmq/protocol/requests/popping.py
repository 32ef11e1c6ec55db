"""Requests about popped messages: 200050 to 200055."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader

ALL_QUEUES = -1
"""As a queue id: whichever queues have messages."""

INIT_MIN, INIT_MAX = 0, 1
"""Where a group without an offset begins: at the first message, or behind the last."""

POPPED_MAX = 32
"""Messages of one pop; RocketMQ refuses more (29)."""


class PopMessageRequest(RequestHeader, kw_only=True):
    """Asks for messages that nobody else of the group gets for a while.

    Attributes:
        topic: the origin topic, never its retry topic.
        queue_id: of one queue, or `ALL_QUEUES`.
        max_msg_nums: 1 to `POPPED_MAX`.
        invisible_time: for so many milliseconds others do not get them.
        poll_time: waits so many milliseconds for messages.
        born_time: when it was sent, in milliseconds since the epoch by the client's clock.
        init_mode: `INIT_MIN` or `INIT_MAX`.
        exp_type, exp: the kind of filter (TAG or SQL92) and the filter.
        order: take the messages of a queue one after the other.
        attempt_id: names an ordered pop, so that its repetition gets the same messages.
    """

    code: ClassVar[RequestCode] = RequestCode.POP_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
    max_msg_nums: int
    invisible_time: int
    poll_time: int
    born_time: int
    init_mode: int
    exp_type: str | None = None
    exp: str | None = None
    order: bool | None = None
    attempt_id: str | None = None


class PopMessageResponse(Header, kw_only=True):
    """Tells what was popped; the body holds the messages.

    Attributes:
        pop_time: when, in milliseconds since the epoch by the broker's clock.
        invisible_time: as it was asked for.
        revive_qid: a number that goes back with each acknowledgement.
        rest_num: about how many messages are left.
        start_offset_info, msg_offset_info, order_count_info: see `messages.receipts`.
    """

    pop_time: int
    invisible_time: int
    revive_qid: int
    rest_num: int
    start_offset_info: str | None = None
    msg_offset_info: str | None = None
    order_count_info: str | None = None


class AckMessageRequest(RequestHeader, kw_only=True):
    """Says that a popped message is handled; `extra_info` is its receipt handle."""

    code: ClassVar[RequestCode] = RequestCode.ACK_MESSAGE

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    lite_topic: str | None = None


class BatchAckRequest(RequestHeader, kw_only=True):
    """Says that messages of several pops are handled: `bodies.popping.BatchAck`."""

    code: ClassVar[RequestCode] = RequestCode.BATCH_ACK_MESSAGE


class QueryAssignmentRequest(RequestHeader, kw_only=True):
    """Asks which queues a member consumes: `bodies.popping.Assignment`."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_ASSIGNMENT


class SetRequestModeRequest(RequestHeader, kw_only=True):
    """Sets how a group consumes a topic: `bodies.popping.RequestMode`."""

    code: ClassVar[RequestCode] = RequestCode.SET_MESSAGE_REQUEST_MODE


class AllRequestModesRequest(RequestHeader, kw_only=True):
    """Asks how groups consume: `bodies.popping.RequestModes`."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_MESSAGE_REQUEST_MODE


class PeekMessageRequest(RequestHeader, kw_only=True):
    """Asks for messages without a change of who gets them; answered as a pop."""

    code: ClassVar[RequestCode] = RequestCode.PEEK_MESSAGE

    topic: str
    queue_id: int
    max_msg_nums: int
    consumer_group: str


class ChangeInvisibleTimeRequest(RequestHeader, kw_only=True):
    """Sets anew for how long others do not get a popped message; 0 gives it back."""

    code: ClassVar[RequestCode] = RequestCode.CHANGE_MESSAGE_INVISIBLETIME

    consumer_group: str
    topic: str
    queue_id: int
    extra_info: str
    offset: int
    invisible_time: int
    lite_topic: str | None = None
    suspend: bool | None = None


class ChangeInvisibleTimeResponse(Header, kw_only=True):
    """Tells the parts of the message's new receipt handle."""

    pop_time: int
    invisible_time: int
    revive_qid: int


class NotificationRequest(RequestHeader, kw_only=True):
    """Waits until there is something to pop."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFICATION

    consumer_group: str
    topic: str
    queue_id: int
    poll_time: int
    born_time: int
    order: bool | None = None
    attempt_id: str | None = None
    exp_type: str | None = None
    exp: str | None = None


class NotificationResponse(Header, kw_only=True):
    """Tells whether there is something to pop, or whether too many wait."""

    has_msg: bool
    polling_full: bool | None = None


class PollingInfoRequest(RequestHeader, kw_only=True):
    """Asks how many pops of a group wait for a queue."""

    code: ClassVar[RequestCode] = RequestCode.POLLING_INFO

    consumer_group: str
    topic: str
    queue_id: int


class PollingInfoResponse(Header, kw_only=True):
    """Tells how many pops wait."""

    polling_num: int
