"""Requests about a broker (25, 305 to 329, 907, 908) and about broker sets (1002 to 1011)."""

from __future__ import annotations

from typing import ClassVar

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.wire.header import Header, RequestHeader


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


class ElectMasterRequest(RequestHeader, kw_only=True):
    """Has a member of a broker set lead (1002).

    Attributes:
        broker_id: which; -1 for any.
        designate_elect: the member named and no other.
        is_passed_on: PocketMQ's own: a member has passed the request on to its leader.
    """

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_ELECT_MASTER

    cluster_name: str
    broker_name: str
    broker_id: int = -1
    designate_elect: bool = False
    is_passed_on: bool | None = None


class ElectMasterResponse(Header, kw_only=True):
    """Tells who leads now."""

    master_broker_id: int
    master_address: str
    master_epoch: int
    sync_state_set_epoch: int


class ControllerMetadataRequest(RequestHeader, kw_only=True):
    """Asks whom to ask about broker sets (1005)."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_METADATA_INFO


class ControllerMetadataResponse(Header, kw_only=True):
    """Tells whom to ask about broker sets."""

    group: str
    controller_leader_id: str
    controller_leader_address: str
    is_leader: bool
    peers: str


class SyncStateRequest(RequestHeader, kw_only=True):
    """Asks who is in sync; the body is a JSON list of broker names (1006)."""

    code: ClassVar[RequestCode] = RequestCode.CONTROLLER_GET_SYNC_STATE_DATA

    is_passed_on: bool | None = None


class BrokerEpochRequest(RequestHeader, kw_only=True):
    """Asks a broker what it has of each epoch (1007)."""

    code: ClassVar[RequestCode] = RequestCode.GET_BROKER_EPOCH_CACHE


class UpdateControllerConfigRequest(RequestHeader, kw_only=True):
    """Changes settings of a controller; the body is properties text (1009)."""

    code: ClassVar[RequestCode] = RequestCode.UPDATE_CONTROLLER_CONFIG


class ControllerConfigRequest(RequestHeader, kw_only=True):
    """Asks for the settings of a controller (1010)."""

    code: ClassVar[RequestCode] = RequestCode.GET_CONTROLLER_CONFIG


class CleanBrokerDataRequest(RequestHeader, kw_only=True):
    """Removes members from a broker set that are gone for good (1011).

    Attributes:
        broker_controller_ids_to_clean: the ids, with semicolons between; None for all members that
            are not alive.
        is_clean_living_broker: also members that are alive.
    """

    code: ClassVar[RequestCode] = RequestCode.CLEAN_BROKER_DATA

    cluster_name: str | None = None
    broker_name: str
    broker_controller_ids_to_clean: str | None = None
    is_clean_living_broker: bool = False
    is_passed_on: bool | None = None
