"""Request codes of RocketMQ's brokers that do not apply here, and what to use instead."""

from __future__ import annotations

from pocketmq.protocol.codes import RequestCode as Code

_COLD_DATA = (
    "reads of old messages are not throttled: they take turns with all others, whatever is in "
    "memory"
)
_POP_ROLLBACK = "popped messages are kept in one way only: there is nothing to export"
_LITE = "there are no lite topics: use ordinary topics, which cost nothing while they are idle"
_AUTH = (
    "this broker does not ask who its clients are, so it keeps no users: set "
    "authenticationEnabled and initAuthenticationUser in its configuration, and start it again"
)
_CONTROLLER = (
    "this broker is of no broker set: it has no followers, and nothing has to be elected; see "
    "enableControllerMode"
)
_REPLICATION = "this broker is of no broker set: there is nobody to replicate to"
_NO_SET = (
    "this broker is of no broker set: set enableControllerMode and a brokerId of its own in the "
    "configuration of each member"
)
_CONTAINER = "brokers are processes of their own: start and stop them with `pocketmq broker`"
_ROCKSDB = "there is no RocksDB: queues are indexed beside their logs, see `pocketmq store check`"
_FILTER = "there are no filter servers: use SQL92 expressions"

UNSUPPORTED: dict[Code, str] = {
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _COLD_DATA,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _COLD_DATA,
    Code.SET_COMMITLOG_READ_MODE: "the operating system reads ahead as it sees fit",
    Code.POP_ROLLBACK: _POP_ROLLBACK,
    **dict.fromkeys(
        (
            Code.POP_LITE_MESSAGE, Code.LITE_SUBSCRIPTION_CTL, Code.ACK_LITE_MESSAGE,
            Code.GET_BROKER_LITE_INFO, Code.GET_PARENT_TOPIC_INFO, Code.GET_LITE_TOPIC_INFO,
            Code.GET_LITE_CLIENT_INFO, Code.GET_LITE_GROUP_INFO, Code.TRIGGER_LITE_DISPATCH,
        ),
        _LITE,
    ),
    Code.JOIN_BROKER_SET: _NO_SET,
    Code.FOLLOW_BROKER: _NO_SET,
    Code.SWITCH_LEADER: _NO_SET,
    Code.DESCRIBE_MEMBER: _NO_SET,
    Code.ELECT_MEMBER: _NO_SET,
    **dict.fromkeys(
        (
            Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER,
            Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL,
            Code.AUTH_DELETE_ACL, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL,
        ),
        _AUTH,
    ),
    **dict.fromkeys(
        (
            Code.GET_BROKER_EPOCH_CACHE, Code.NOTIFY_BROKER_ROLE_CHANGED,
            Code.CHECK_NOT_ACTIVE_BROKER_REQUEST, Code.CONTROLLER_GET_METADATA_INFO,
            Code.CONTROLLER_GET_SYNC_STATE_DATA, Code.CONTROLLER_ELECT_MASTER,
            Code.GET_CONTROLLER_CONFIG, Code.UPDATE_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
        ),
        _CONTROLLER,
    ),
    **dict.fromkeys(
        (
            Code.NOTIFY_MIN_BROKER_ID_CHANGE, Code.EXCHANGE_BROKER_HA_INFO,
            Code.GET_TIMER_CHECK_POINT,
        ),
        _REPLICATION,
    ),
    **dict.fromkeys((Code.ADD_BROKER, Code.REMOVE_BROKER), _CONTAINER),
    **dict.fromkeys(
        (Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, Code.EXPORT_ROCKSDB_CONFIG_TO_JSON), _ROCKSDB
    ),
    **dict.fromkeys((Code.REGISTER_FILTER_SERVER, Code.REGISTER_MESSAGE_FILTER_CLASS), _FILTER),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: "there are no static topics: a topic's queues stay on "
    "their brokers; create it with updateTopic or `pocketmq topic create`",
    Code.GET_TIMER_METRICS: "timers are not counted by their delays: brokerStatus tells how many "
    "wait",
    Code.SWITCH_TIMER_ENGINE: "there is one timer engine",
    Code.GET_TOPIC_CONFIG_LIST: "ask for all topics (21) or one (351)",
    Code.GET_TOPIC_NAME_LIST: "ask for all topics (21)",
}  # fmt: skip
