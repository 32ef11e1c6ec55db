"""Requests for messages by key, and for entries of a queue's index: 12, 321."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader

KEY = "K"
UNIQUE_KEY = "U"
TAG = "T"


class QueryMessageRequest(RequestHeader, kw_only=True):
    """Asks for a topic's newest messages that have a key and were stored between two times.

    Attributes:
        index_type: what is looked for: `KEY` (the default), `UNIQUE_KEY` or `TAG`.
        last_key: where RocketMQ's other kind of index goes on; this one has no pages.
        unique_key_query: ``true`` for a unique key, as clients have always said it.
    """

    code: ClassVar[RequestCode] = RequestCode.QUERY_MESSAGE

    topic: str
    key: str
    max_num: int
    begin_timestamp: int
    end_timestamp: int
    index_type: str | None = None
    last_key: str | None = None
    unique_key_query: str | None = msgspec.field(default=None, name="_UNIQUE_KEY_QUERY")


class QueryMessageResponse(Header, kw_only=True):
    """Says up to where the broker searched; the messages are the body."""

    index_last_update_timestamp: int = 0
    index_last_update_phyoffset: int = 0


class QueryConsumeQueueRequest(RequestHeader, kw_only=True):
    """Asks for index entries of a queue, and whether a group's filter takes them."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUME_QUEUE

    topic: str
    queue_id: int = 0
    index: int = 0
    count: int = 0
    consumer_group: str | None = None
