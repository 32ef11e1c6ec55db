"""Requests about clients and the members of groups: 34, 35, 38, 40, 46, 203, 204."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class HeartbeatRequest(RequestHeader, kw_only=True):
    """Tells a broker a client's groups and subscriptions, in the body."""

    code: ClassVar[RequestCode] = RequestCode.HEART_BEAT


class HeartbeatResponse(Header, kw_only=True):
    """Says whether short heartbeats are understood, and whether the full one is wanted next."""

    is_support_heart_beat_v2: bool | None = field(default=None, name="IS_SUPPORT_HEART_BEAT_V2")
    is_sub_change: bool | None = field(default=None, name="IS_SUB_CHANGE")


class UnregisterClientRequest(RequestHeader, kw_only=True):
    """Takes a client out of one producer or consumer group."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_CLIENT

    client_id: str = field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerListRequest(RequestHeader, kw_only=True):
    """Asks for the ids of a group's living consumers."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_LIST_BY_GROUP

    consumer_group: str


class ConsumerIdsChangedRequest(RequestHeader, kw_only=True):
    """Tells a client, one-way, that its group's members changed: it has to rebalance now."""

    code: ClassVar[RequestCode] = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED

    consumer_group: str


class ConsumerConnectionsRequest(RequestHeader, kw_only=True):
    """Asks for the connected members of a consumer group."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONSUMER_CONNECTION_LIST

    consumer_group: str


class ProducerConnectionsRequest(RequestHeader, kw_only=True):
    """Asks for the connected members of a producer group."""

    code: ClassVar[RequestCode] = RequestCode.GET_PRODUCER_CONNECTION_LIST

    producer_group: str


class CheckClientConfigRequest(RequestHeader, kw_only=True):
    """Asks whether a subscription's expression can be used; the subscription is the body."""

    code: ClassVar[RequestCode] = RequestCode.CHECK_CLIENT_CONFIG
