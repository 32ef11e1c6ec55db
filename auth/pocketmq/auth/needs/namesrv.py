"""What each request to a name server needs; RocketMQ's name servers ask nobody.

A request that names no cluster is about all clusters that are registered.
"""

from __future__ import annotations

from pocketmq.auth.needs.parts import NamedPart
from pocketmq.auth.needs.table import (
    ONLY_SUPER,
    NeedsTable,
    cluster,
    named_cluster,
)
from pocketmq.auth.rights.policies import Action, ResourceType
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.names.names import AUTO_CREATE_TOPIC

GET, PUB, SUB, UPDATE = (
    Action.GET,
    Action.PUB,
    Action.SUB,
    Action.UPDATE,
)

_SHOW = (cluster(GET),)
_CHANGE = (cluster(UPDATE),)
_OF_BROKER = (named_cluster(UPDATE),)

_ROUTE = NamedPart(
    ResourceType.TOPIC,
    "topic",
    frozenset({PUB, SUB, GET}),
    retry=frozenset({SUB, GET}),
    exempt=(AUTO_CREATE_TOPIC,),
)
"""Producers ask for the route of `AUTO_CREATE_TOPIC` where their topic does not exist yet."""

NAMESRV_NEEDS: NeedsTable = {
    Code.GET_ROUTEINFO_BY_TOPIC: (_ROUTE,),
    Code.GET_BROKER_CLUSTER_INFO: _SHOW,
    Code.GET_BROKER_MEMBER_GROUP: (named_cluster(GET),),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: _SHOW,
    Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: _SHOW,
    Code.GET_TOPICS_BY_CLUSTER: (named_cluster(GET, field="cluster"),),
    Code.GET_UNIT_TOPIC_LIST: _SHOW,
    Code.GET_HAS_UNIT_SUB_TOPIC_LIST: _SHOW,
    Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: _SHOW,
    Code.REGISTER_BROKER: _OF_BROKER,
    Code.UNREGISTER_BROKER: _OF_BROKER,
    Code.QUERY_DATA_VERSION: _OF_BROKER,
    Code.BROKER_HEARTBEAT: _OF_BROKER,
    Code.REGISTER_TOPIC_IN_NAMESRV: _CHANGE,
    Code.DELETE_TOPIC_IN_NAMESRV: _CHANGE,
    Code.WIPE_WRITE_PERM_OF_BROKER: _CHANGE,
    Code.ADD_WRITE_PERM_OF_BROKER: _CHANGE,
    Code.PUT_KV_CONFIG: _CHANGE,
    Code.GET_KV_CONFIG: _SHOW,
    Code.DELETE_KV_CONFIG: _CHANGE,
    Code.GET_KVLIST_BY_NAMESPACE: _SHOW,
    Code.UPDATE_NAMESRV_CONFIG: _CHANGE,
    Code.GET_NAMESRV_CONFIG: _SHOW,
    Code.AUTH_TELL: ONLY_SUPER,
    Code.ARBITER_READ: ONLY_SUPER,
    Code.ARBITER_WRITE: ONLY_SUPER,
    # what this name server refuses with a reason
    Code.CONTROLLER_ALTER_SYNC_STATE_SET: _CHANGE,
    Code.CONTROLLER_ELECT_MASTER: _CHANGE,
    Code.CONTROLLER_REGISTER_BROKER: _CHANGE,
    Code.CONTROLLER_GET_REPLICA_INFO: _SHOW,
    Code.CONTROLLER_GET_METADATA_INFO: _SHOW,
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _SHOW,
    Code.UPDATE_CONTROLLER_CONFIG: _CHANGE,
    Code.GET_CONTROLLER_CONFIG: _SHOW,
    Code.CLEAN_BROKER_DATA: _CHANGE,
    Code.CONTROLLER_GET_NEXT_BROKER_ID: _SHOW,
    Code.CONTROLLER_APPLY_BROKER_ID: _CHANGE,
}
"""The needs of requests to a name server, by code."""
