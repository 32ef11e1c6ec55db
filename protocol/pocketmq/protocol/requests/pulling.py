"""Pull requests and their answers: 11, 361, and PocketMQ's bulk pull."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader

PULL_COMMIT_OFFSET = 1
PULL_SUSPEND = 2
PULL_SUBSCRIPTION = 4
PULL_LITE = 16


class PullMessageRequest(RequestHeader, kw_only=True):
    """Asks for a queue's messages from an offset on; waits for some with `PULL_SUSPEND`."""

    code: ClassVar[RequestCode] = RequestCode.PULL_MESSAGE

    consumer_group: str
    topic: str
    lite_topic: str | None = None
    queue_id: int
    queue_offset: int
    max_msg_nums: int = 32
    sys_flag: int = 0
    commit_offset: int = 0
    suspend_timeout_millis: int = 0
    subscription: str | None = None
    sub_version: int = 0
    expression_type: str | None = None
    max_msg_bytes: int | None = None
    request_source: int | None = None


class LitePullMessageRequest(PullMessageRequest, kw_only=True):
    """The pull request of a lite pull consumer, 361."""

    code: ClassVar[RequestCode] = RequestCode.LITE_PULL_MESSAGE


class BulkPullRequest(PullMessageRequest, kw_only=True):
    """A pull with the broker's bulk limits, which obeys `max_msg_bytes` (PocketMQ's own, 31002).

    Attributes:
        with_sizes: ask for the sizes of the records behind them, see `BulkPullResponse`.
    """

    code: ClassVar[RequestCode] = RequestCode.BULK_PULL

    with_sizes: bool = False


class PullMessageResponse(Header, kw_only=True):
    """Says where to go on and which offsets the queue holds; the messages are the body."""

    suggest_which_broker_id: int = 0
    next_begin_offset: int = 0
    min_offset: int = 0
    max_offset: int = 0
    offset_delta: int | None = None
    topic_sys_flag: int | None = None
    group_sys_flag: int | None = None
    forbidden_type: int | None = None


class BulkPullResponse(PullMessageResponse, kw_only=True):
    """The answer to a bulk pull.

    Attributes:
        size_count: so many sizes of records stand behind the records, 4 bytes each, big-endian. The
            broker gives them, if asked, where it has read neighbouring records.
    """

    size_count: int = 0
