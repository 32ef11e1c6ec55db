"""Requests about offsets of queues and of consumer groups: 14, 15, 29 to 33."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class QueryConsumerOffsetRequest(RequestHeader, kw_only=True):
    """Asks for a group's offset in a queue; the answer is 22 if it never committed there."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    set_zero_if_not_found: bool | None = None


class UpdateConsumerOffsetRequest(RequestHeader, kw_only=True):
    """Commits a group's offset in a queue; usually sent one-way."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONSUMER_OFFSET

    consumer_group: str
    topic: str
    queue_id: int
    commit_offset: int


class SearchOffsetRequest(RequestHeader, kw_only=True):
    """Asks for the offset at a store time in ms; `boundary_type` is LOWER (default) or UPPER."""

    code: ClassVar[RequestCode] = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP

    topic: str
    queue_id: int
    timestamp: int
    boundary_type: str | None = None


class MaxOffsetRequest(RequestHeader, kw_only=True):
    """Asks for the offset that the next message of a queue will get."""

    code: ClassVar[RequestCode] = RequestCode.GET_MAX_OFFSET

    topic: str
    queue_id: int
    committed: bool | None = None


class MinOffsetRequest(RequestHeader, kw_only=True):
    """Asks for the offset of the oldest message that a queue still holds."""

    code: ClassVar[RequestCode] = RequestCode.GET_MIN_OFFSET

    topic: str
    queue_id: int


class EarliestStoreTimeRequest(RequestHeader, kw_only=True):
    """Asks when the oldest message of a queue was stored."""

    code: ClassVar[RequestCode] = RequestCode.GET_EARLIEST_MSG_STORETIME

    topic: str
    queue_id: int


class OffsetResponse(Header, kw_only=True):
    """A queue offset."""

    offset: int


class TimestampResponse(Header, kw_only=True):
    """A time in milliseconds since the epoch; -1 when there is none."""

    timestamp: int


class ViewMessageRequest(RequestHeader, kw_only=True):
    """Asks for one message by its physical offset, which an offset message id holds."""

    code: ClassVar[RequestCode] = RequestCode.VIEW_MESSAGE_BY_ID

    topic: str | None = None
    offset: int
