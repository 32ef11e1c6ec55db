"""Requests about a broker itself, to show, set and clean: 25, 305, 306, 315, 316, 329, 907, 908."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import RequestHeader


class UpdateBrokerConfigRequest(RequestHeader, kw_only=True):
    """Changes settings of a running broker; the body is properties text."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_BROKER_CONFIG


class BrokerStatsRequest(RequestHeader, kw_only=True):
    """Asks for one statistic, such as TOPIC_PUT_NUMS of a topic."""

    code: ClassVar[RequestCode] = RequestCode.VIEW_BROKER_STATS_DATA

    stats_name: str
    stats_key: str


class BrokerSystemTopicsRequest(RequestHeader, kw_only=True):
    """Asks for the topics that belong to the broker rather than to its users."""

    code: ClassVar[RequestCode] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER


class CleanExpiredQueuesRequest(RequestHeader, kw_only=True):
    """Removes queues whose messages are gone."""

    code: ClassVar[RequestCode] = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE


class CleanUnusedTopicsRequest(RequestHeader, kw_only=True):
    """Removes what is left of topics that do not exist any more."""

    code: ClassVar[RequestCode] = RequestCode.CLEAN_UNUSED_TOPIC


class DeleteExpiredFilesRequest(RequestHeader, kw_only=True):
    """Removes expired messages now."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_EXPIRED_COMMITLOG


class HAStatusRequest(RequestHeader, kw_only=True):
    """Asks for the state of replication."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_HA_STATUS


class ResetMasterFlushOffsetRequest(RequestHeader, kw_only=True):
    """Tells a slave how far its master has flushed."""

    code: ClassVar[RequestCode] = RequestCode.RESET_MASTER_FLUSH_OFFSET

    master_flush_offset: int | None = None
