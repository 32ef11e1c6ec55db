"""Sends, replies, recalls and bulk appends: 10, 310, 320, 324 to 326, 370, 31001."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader

_SHORT_NAMES = {
    "producer_group": "a",
    "topic": "b",
    "default_topic": "c",
    "default_topic_queue_nums": "d",
    "queue_id": "e",
    "sys_flag": "f",
    "born_timestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsume_times": "j",
    "unit_mode": "k",
    "max_reconsume_times": "l",
    "batch": "m",
    "broker_name": "n",
}


class SendMessageRequest(RequestHeader, kw_only=True):
    """Sends one message (or, with `batch`, a client batch) to a queue: the long-name form, 10."""

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: int = 0
    queue_id: int
    sys_flag: int = 0
    born_timestamp: int
    flag: int = 0
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: int | None = None


class SendMessageV2Request(SendMessageRequest, rename=_SHORT_NAMES, kw_only=True):
    """The send request with one-letter names on the wire: what current SDKs send, 310.

    The fields stand here again because msgspec renames only those that a class itself declares.
    """

    code: ClassVar[RequestCode] = RequestCode.SEND_MESSAGE_V2

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: int = 0
    queue_id: int
    sys_flag: int = 0
    born_timestamp: int
    flag: int = 0
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    batch: bool | None = None
    max_reconsume_times: int | None = None
    broker_name: str | None = None


class SendBatchRequest(SendMessageV2Request, kw_only=True):
    """Sends a client batch of messages to one queue, 320."""

    code: ClassVar[RequestCode] = RequestCode.SEND_BATCH_MESSAGE


class SendReplyLongRequest(SendMessageRequest, kw_only=True):
    """Sends the reply to a request for its requester: the long-name form, 324."""

    code: ClassVar[RequestCode] = RequestCode.SEND_REPLY_MESSAGE


class SendReplyRequest(SendMessageV2Request, kw_only=True):
    """Sends the reply to a request, with one-letter names on the wire, 325."""

    code: ClassVar[RequestCode] = RequestCode.SEND_REPLY_MESSAGE_V2


class PushReplyRequest(RequestHeader, kw_only=True):
    """Gives a client the reply to a request that it has sent, 326."""

    code: ClassVar[RequestCode] = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT

    producer_group: str
    topic: str
    default_topic: str = ""
    default_topic_queue_nums: int = 0
    queue_id: int
    sys_flag: int = 0
    born_timestamp: int
    flag: int = 0
    properties: str | None = None
    reconsume_times: int | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: int


class SendMessageResponse(Header, kw_only=True):
    """Says where a message was stored; for a batch, `msg_id` is a comma list."""

    msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None
    region: str | None = field(default=None, name="MSG_REGION")
    trace_on: bool | None = field(default=None, name="TRACE_ON")


class RecallMessageRequest(RequestHeader, kw_only=True):
    """Calls back a timer message, so that it is not delivered, 370.

    Attributes:
        recall_handle: as the answer of its send gave it.
        broker_name: of the broker that is asked.
    """

    code: ClassVar[RequestCode] = RequestCode.RECALL_MESSAGE

    producer_group: str | None = None
    topic: str
    recall_handle: str
    broker_name: str | None = field(default=None, name="bname")


class RecallMessageResponse(Header, kw_only=True):
    """Gives the unique key of the message that was recalled."""

    msg_id: str
    region: str | None = field(default=None, name="MSG_REGION")


class BulkAppendRequest(RequestHeader, kw_only=True):
    """Appends many ready-made stored records to one queue (PocketMQ's own, 31001).

    The body is the records back to back in RocketMQ's stored form; `queueOffset`,
    `physicalOffset`, `storeTimestamp` and `storeHost` are left zero and filled in by the broker.

    Attributes:
        sizes: the bytes of each record stand behind the records, 4 bytes each, big-endian; without
            them the broker has to go from record to record.
    """

    code: ClassVar[RequestCode] = RequestCode.BULK_APPEND

    producer_group: str
    topic: str
    queue_id: int
    count: int
    sizes: bool = False


class BulkAppendResponse(Header, kw_only=True):
    """Gives the queue offset of the first record; the others follow without a gap."""

    queue_offset: int
    count: int
