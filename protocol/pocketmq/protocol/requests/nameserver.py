"""Requests to a name server: registration, routes, KV configuration, topic lists."""

from __future__ import annotations

from typing import ClassVar

from msgspec import field

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


class RegisterBrokerRequest(RequestHeader, kw_only=True):
    """Registers a broker's addresses and topics; sent to every name server every 30 s.

    PocketMQ's own are `advertise`, rules that give some callers another address (JSON text, a list
    of `bodies.routes.AdvertiseRule`), and `partial`: the broker has more topics than it tells here.
    """

    code: ClassVar[RequestCode] = RequestCode.REGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str = ""
    broker_id: int = 0
    heartbeat_timeout_millis: int | None = None
    enable_acting_master: bool | None = None
    compressed: bool = False
    body_crc32: int = 0
    zone_name: str | None = field(default=None, name="__ZONE_NAME")
    advertise: str | None = None
    partial: bool | None = None


class RegisterBrokerResponse(Header, kw_only=True):
    """Tells a slave its master's addresses."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBrokerRequest(RequestHeader, kw_only=True):
    """Removes a broker that stops."""

    code: ClassVar[RequestCode] = RequestCode.UNREGISTER_BROKER

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class TellUsersRequest(RequestHeader, kw_only=True):
    """Tells a broker's users and their policies, encrypted in the body (PocketMQ's own, 31003)."""

    code: ClassVar[RequestCode] = RequestCode.AUTH_TELL

    broker_name: str
    broker_addr: str
    cluster_name: str


class QueryDataVersionRequest(RequestHeader, kw_only=True):
    """Asks whether a broker's topics are newer than registered; the body is their version."""

    code: ClassVar[RequestCode] = RequestCode.QUERY_DATA_VERSION

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: int


class QueryDataVersionResponse(Header, kw_only=True):
    """Says whether a full registration is due."""

    changed: bool


class BrokerHeartbeatRequest(RequestHeader, kw_only=True):
    """Says between registrations that a broker is alive, 904."""

    code: ClassVar[RequestCode] = RequestCode.BROKER_HEARTBEAT

    cluster_name: str
    broker_addr: str
    broker_name: str
    broker_id: int | None = None


class RouteRequest(RequestHeader, kw_only=True):
    """Asks where a topic's queues are.

    With `zone_mode` "true", only the brokers of that zone and those without a master.
    """

    code: ClassVar[RequestCode] = RequestCode.GET_ROUTEINFO_BY_TOPIC

    topic: str
    accept_standard_json_only: bool | None = None
    zone_mode: str | None = field(default=None, name="__ZONE_MODE")
    zone_name: str | None = field(default=None, name="__ZONE_NAME")


class ClusterInfoRequest(RequestHeader, kw_only=True):
    """Asks for all clusters and brokers."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_CLUSTER_INFO


class ClusterInfoResponse(Header, kw_only=True):
    """Tells the name server's release of PocketMQ; those of RocketMQ have no such field."""

    pocketmq_version: str | None = None


class TopicListRequest(RequestHeader, kw_only=True):
    """Asks for all topics that the name server knows."""

    code: ClassVar[RequestCode] = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER


class SystemTopicListRequest(RequestHeader, kw_only=True):
    """Asks for the names of clusters and brokers, which are topics too."""

    code: ClassVar[RequestCode] = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS


class TopicsByClusterRequest(RequestHeader, kw_only=True):
    """Asks for the topics of one cluster."""

    code: ClassVar[RequestCode] = RequestCode.GET_TOPICS_BY_CLUSTER

    cluster: str


class UnitTopicListRequest(RequestHeader, kw_only=True):
    """Asks for the topics with the unit flag, 311."""

    code: ClassVar[RequestCode] = RequestCode.GET_UNIT_TOPIC_LIST


class UnitSubTopicListRequest(RequestHeader, kw_only=True):
    """Asks for the topics with the unit-subscription flag, 312."""

    code: ClassVar[RequestCode] = RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST


class UnitSubOnlyTopicListRequest(RequestHeader, kw_only=True):
    """Asks for the topics with the unit-subscription flag but without the unit flag, 313."""

    code: ClassVar[RequestCode] = RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST


class DeleteTopicInNamesrvRequest(RequestHeader, kw_only=True):
    """Removes a topic from the route table, in one cluster if given."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_TOPIC_IN_NAMESRV

    topic: str
    cluster_name: str | None = None


class RegisterTopicRequest(RequestHeader, kw_only=True):
    """Adds queue data to a topic; the body is a TopicRouteData."""

    code: ClassVar[RequestCode] = RequestCode.REGISTER_TOPIC_IN_NAMESRV

    topic: str


class WipeWritePermRequest(RequestHeader, kw_only=True):
    """Takes the write permission from all topics of a broker."""

    code: ClassVar[RequestCode] = RequestCode.WIPE_WRITE_PERM_OF_BROKER

    broker_name: str


class WipeWritePermResponse(Header, kw_only=True):
    """Says how many topics were changed."""

    wipe_topic_count: int


class AddWritePermRequest(RequestHeader, kw_only=True):
    """Gives all topics of a broker the write permission back."""

    code: ClassVar[RequestCode] = RequestCode.ADD_WRITE_PERM_OF_BROKER

    broker_name: str


class AddWritePermResponse(Header, kw_only=True):
    """Says how many topics were changed."""

    add_topic_count: int


class BrokerMemberGroupRequest(RequestHeader, kw_only=True):
    """Asks for the addresses of one broker name."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_MEMBER_GROUP

    cluster_name: str
    broker_name: str


class PutKVConfigRequest(RequestHeader, kw_only=True):
    """Sets a key of a namespace."""

    code: ClassVar[RequestCode] = RequestCode.PUT_KV_CONFIG

    namespace: str
    key: str
    value: str


class GetKVConfigRequest(RequestHeader, kw_only=True):
    """Reads a key of a namespace."""

    code: ClassVar[RequestCode] = RequestCode.GET_KV_CONFIG

    namespace: str
    key: str


class GetKVConfigResponse(Header, kw_only=True):
    """The key's value."""

    value: str | None = None


class DeleteKVConfigRequest(RequestHeader, kw_only=True):
    """Removes a key of a namespace."""

    code: ClassVar[RequestCode] = RequestCode.DELETE_KV_CONFIG

    namespace: str
    key: str


class GetKVListRequest(RequestHeader, kw_only=True):
    """Asks for all keys of a namespace."""

    code: ClassVar[RequestCode] = RequestCode.GET_KVLIST_BY_NAMESPACE

    namespace: str


class NamesrvConfigRequest(RequestHeader, kw_only=True):
    """Asks for the name server's settings as properties text."""

    code: ClassVar[RequestCode] = RequestCode.GET_NAMESRV_CONFIG


class UpdateNamesrvConfigRequest(RequestHeader, kw_only=True):
    """Changes settings of a running name server; the body is properties text."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_NAMESRV_CONFIG
